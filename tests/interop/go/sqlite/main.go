// The program works River's SQLite file for riverui's interop tests and benchmark:
//
//	sqlite FILE migrate
//	sqlite FILE insert COUNT       each in its own transaction
//	sqlite FILE at_once COUNT      the same by a hundred goroutines
//	sqlite FILE insert_many COUNT  all in one call
//	sqlite FILE work SLOTS         until the end of its input; prints the id of each job that it works
//	sqlite FILE bench SLOTS COUNT  works COUNT jobs that wait, and prints the seconds
package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite"
)

type shared struct {
	N int `json:"n"`
}

func (shared) Kind() string { return "shared" }

type worker struct {
	river.WorkerDefaults[shared]
	done func(id int64)
}

func (w *worker) Work(_ context.Context, job *river.Job[shared]) error {
	if job.Args.N < 0 && job.Attempt == 1 {
		return fmt.Errorf("%d is negative", job.Args.N)
	}
	w.done(job.ID)
	return nil
}

type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, command string, rest []string) error {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+file+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // as River says
	driver := riversqlite.New(db)
	if command == "migrate" {
		migrator, err := rivermigrate.New(driver, nil)
		if err != nil {
			return err
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	}
	number, err := strconv.Atoi(rest[0])
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	config := &river.Config{Logger: logger, TestOnly: true}
	if command == "insert" || command == "at_once" || command == "insert_many" {
		client, err := river.NewClient(driver, config)
		if err != nil {
			return err
		}
		return insert(ctx, client, command, number)
	}
	count, ended := 0, make(chan struct{})
	if command == "bench" {
		if count, err = strconv.Atoi(rest[1]); err != nil {
			return err
		}
	}
	var worked atomic.Int64
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &worker{done: func(id int64) {
		if count == 0 {
			fmt.Println(id)
		} else if worked.Add(1) == int64(count) {
			close(ended)
		}
	}})
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: number}}
	config.RetryPolicy = soon{}
	client, err := river.NewClient(driver, config)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return err
	}
	if count == 0 {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
	} else {
		<-ended
	}
	err = client.Stop(ctx)
	if count > 0 {
		fmt.Println(time.Since(start).Seconds())
	}
	return err
}

func insert(ctx context.Context, client *river.Client[*sql.Tx], command string, count int) error {
	start := time.Now()
	params := make([]river.InsertManyParams, count)
	for i := range params {
		params[i] = river.InsertManyParams{Args: shared{N: i}, InsertOpts: &river.InsertOpts{
			Tags: []string{"from-go"}, Metadata: []byte(`{"by": "gö\"\n"}`),
		}}
	}
	if command == "insert_many" {
		if _, err := client.InsertMany(ctx, params); err != nil {
			return err
		}
	} else {
		routines := 1
		if command == "at_once" {
			routines = 100
		}
		errs := make(chan error)
		for routine := range routines {
			go func() {
				for i := routine; i < count; i += routines {
					if _, err := client.Insert(ctx, params[i].Args, params[i].InsertOpts); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range routines {
			if err := <-errs; err != nil {
				return err
			}
		}
	}
	fmt.Println(time.Since(start).Seconds())
	return nil
}
