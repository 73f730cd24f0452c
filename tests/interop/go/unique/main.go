// The program inserts jobs through Go River and tells what came of it, for riverui's tests of args and unique keys.
// It takes requests as JSON lines on stdin and answers each with one JSON line on stdout, in order.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

type uniqueOpts struct {
	ByArgs      bool                 `json:"by_args"`
	ByPeriod    float64              `json:"by_period"` // seconds
	ByQueue     bool                 `json:"by_queue"`
	ByState     []rivertype.JobState `json:"by_state"`
	ExcludeKind bool                 `json:"exclude_kind"`
}

type insertion struct {
	Args        string     `json:"args"` // JSON
	Kind        string     `json:"kind"`
	Queue       string     `json:"queue"`
	ScheduledAt time.Time  `json:"scheduled_at"`
	Unique      uniqueOpts `json:"unique"`
}

type request struct {
	Jobs []insertion `json:"jobs"`
	Keep bool        `json:"keep"` // commit; otherwise only the keys are wanted

	Bits  []string          `json:"bits"`  // floats, as the hexadecimal of their bits
	Texts []json.RawMessage `json:"texts"` // any JSON
	Times []time.Time       `json:"times"`
}

type inserted struct {
	Args      string `json:"args,omitempty"` // what json.Marshal gave
	Duplicate bool   `json:"duplicate"`
	Error     string `json:"error,omitempty"`
	ID        int64  `json:"id,omitempty"`
	Key       string `json:"key,omitempty"`
	Kind      string `json:"kind,omitempty"`
	States    string `json:"states,omitempty"`
}

type answer struct {
	Error    string     `json:"error,omitempty"`
	Inserted []inserted `json:"inserted,omitempty"`
	Texts    []string   `json:"texts,omitempty"`
}

func main() {
	databaseURL := flag.String("database-url", "", "the database")
	schema := flag.String("schema", "", "the schema that holds River's tables; empty is the search path")
	flag.Parse()
	if err := run(*databaseURL, *schema); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(databaseURL, schema string) error {
	ctx := context.Background()
	var pool *pgxpool.Pool
	if databaseURL != "" {
		var err error
		if pool, err = pgxpool.New(ctx, databaseURL); err != nil {
			return err
		}
		defer pool.Close()
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: schema})
	if err != nil {
		return err
	}

	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return nil // end of input
		}
		var asked request
		if err = json.Unmarshal(line, &asked); err != nil {
			return err
		}
		given, err := respond(ctx, client, pool, &asked)
		if err != nil {
			given = &answer{Error: err.Error()}
		}
		if err := out.Encode(given); err != nil {
			return err
		}
	}
}

func respond(ctx context.Context, client *river.Client[pgx.Tx], pool *pgxpool.Pool, asked *request) (*answer, error) {
	var given answer
	for _, bits := range asked.Bits {
		number, err := strconv.ParseUint(bits, 16, 64)
		if err != nil {
			return nil, err
		}
		if err := given.marshal(math.Float64frombits(number)); err != nil {
			return nil, err
		}
	}
	for _, raw := range asked.Texts {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		if err := given.marshal(value); err != nil {
			return nil, err
		}
	}
	for _, value := range asked.Times {
		if err := given.marshal(value); err != nil {
			return nil, err
		}
	}
	if len(asked.Jobs) == 0 {
		return &given, nil
	}

	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
	for _, job := range asked.Jobs {
		given.Inserted = append(given.Inserted, insert(ctx, client, tx, job, asked.Keep))
	}
	if asked.Keep {
		return &given, tx.Commit(ctx)
	}
	return &given, nil
}

// insert takes back each job at once, unless it is to be kept: the next one may have the same key.
func insert(ctx context.Context, client *river.Client[pgx.Tx], tx pgx.Tx, job insertion, keep bool) inserted {
	fail := func(err error) inserted { return inserted{Error: err.Error()} }
	args, err := argsOf(job.Kind, json.RawMessage(job.Args))
	if err != nil {
		return fail(err)
	}
	encoded, err := json.Marshal(args)
	if err != nil {
		return fail(err)
	}
	point, err := tx.Begin(ctx)
	if err != nil {
		return fail(err)
	}
	defer point.Rollback(ctx) //nolint:errcheck // as above
	result, err := client.InsertTx(ctx, point, args, &river.InsertOpts{
		Queue:       job.Queue,
		ScheduledAt: job.ScheduledAt,
		UniqueOpts: river.UniqueOpts{
			ByArgs:      job.Unique.ByArgs,
			ByPeriod:    time.Duration(job.Unique.ByPeriod * float64(time.Second)),
			ByQueue:     job.Unique.ByQueue,
			ByState:     job.Unique.ByState,
			ExcludeKind: job.Unique.ExcludeKind,
		},
	})
	if err != nil {
		return fail(err)
	}
	var states string
	if result.Job.UniqueKey != nil {
		if err := point.QueryRow(ctx, "SELECT unique_states::text FROM river_job WHERE id = $1", result.Job.ID).
			Scan(&states); err != nil {
			return fail(err)
		}
	}
	if keep {
		if err := point.Commit(ctx); err != nil {
			return fail(err)
		}
	}
	return inserted{
		Args:      string(encoded),
		Duplicate: result.UniqueSkippedAsDuplicate,
		ID:        result.Job.ID,
		Key:       hex.EncodeToString(result.Job.UniqueKey),
		Kind:      result.Job.Kind,
		States:    states,
	}
}

func (a *answer) marshal(value any) error {
	text, err := json.Marshal(value)
	a.Texts = append(a.Texts, string(text))
	return err
}

func argsOf(kind string, raw json.RawMessage) (river.JobArgs, error) {
	if make, ok := kinds[kind]; ok {
		args := make()
		return args, json.Unmarshal(raw, args)
	}
	if kind == "" {
		return nil, errors.New("no kind")
	}
	return rawArgs{kind: kind, raw: raw}, nil
}
