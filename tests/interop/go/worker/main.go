// The worker runs a real River client for riverui's interop tests. It takes commands as JSON lines on stdin and
// answers with JSON lines on stdout: one answer (with the command's ref) for each command, and one line for each event.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverlog"
	"github.com/riverqueue/river/rivertype"
)

type command struct {
	Args  args   `json:"args"`
	Count int    `json:"count"` // load: how many jobs to keep waiting
	ID    int64  `json:"id"`
	Kind  string `json:"kind"`
	Op    string `json:"op"` // insert retry cancel delete pause resume start stop load
	Opts  opts   `json:"opts"`
	Queue string `json:"queue"`
	Ref   string `json:"ref"`

	Seconds float64 `json:"seconds"` // load: for how long
}

type opts struct {
	MaxAttempts int             `json:"max_attempts"`
	Metadata    json.RawMessage `json:"metadata"`
	Pending     bool            `json:"pending"`
	Priority    int             `json:"priority"`
	Queue       string          `json:"queue"`
	ScheduledIn float64         `json:"scheduled_in"` // seconds from now; 0 is at once
	Tags        []string        `json:"tags"`
	Unique      *struct {
		ByArgs  bool                 `json:"by_args"`
		ByQueue bool                 `json:"by_queue"`
		ByState []rivertype.JobState `json:"by_state"`
	} `json:"unique"`
}

type event struct {
	Attempt   int     `json:"attempt,omitempty"`
	Count     int64   `json:"count,omitempty"`
	Duplicate bool    `json:"duplicate,omitempty"`
	Error     string  `json:"error,omitempty"`
	Event     string  `json:"event"`
	ID        int64   `json:"id,omitempty"`
	Kind      string  `json:"kind,omitempty"`
	Message   string  `json:"message,omitempty"`
	Queue     string  `json:"queue,omitempty"`
	Ref       string  `json:"ref,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
	State     string  `json:"state,omitempty"`
}

// events writes one JSON line at a time.
type events struct {
	encoder *json.Encoder
	mutex   sync.Mutex
}

func (e *events) send(ev event) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.encoder.Encode(ev); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

type program struct {
	client *river.Client[pgx.Tx]
	done   atomic.Int64 // noops worked
	out    *events
}

func main() {
	databaseURL := flag.String("database-url", "", "the database")
	queues := flag.String("queues", "default=10,second=5", "queues to work and how many jobs each at a time")
	schema := flag.String("schema", "", "the schema that holds River's tables; empty is the search path")
	offset := flag.Duration("utc-offset", 0, "local time of this process, as a distance from UTC")
	fast := flag.Bool("fast", false, "fetch as eagerly as `river bench` does, and report no events")
	flag.Parse()
	time.Local = time.FixedZone("", int(offset.Seconds()))
	if err := run(*databaseURL, *schema, *queues, *fast); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(databaseURL, schema, queues string, fast bool) error {
	ctx := context.Background()
	p := &program{out: &events{encoder: json.NewEncoder(os.Stdout)}}

	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	config := &river.Config{
		JobTimeout: -1,
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Middleware: []rivertype.Middleware{riverlog.NewMiddleware(func(w io.Writer) slog.Handler {
			return slog.NewTextHandler(w, nil)
		}, nil)},
		Queues:  map[string]river.QueueConfig{},
		Schema:  schema,
		Workers: workers(p.out, &p.done, fast),
	}
	for entry := range strings.SplitSeq(queues, ",") {
		name, slots, _ := strings.Cut(entry, "=")
		workers, err := strconv.Atoi(slots)
		if err != nil {
			return err
		}
		config.Queues[name] = river.QueueConfig{MaxWorkers: workers}
	}
	if fast {
		config.FetchCooldown, config.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
		config.Middleware = nil
	}
	if p.client, err = river.NewClient(riverpgxv5.New(pool), config); err != nil {
		return err
	}
	if !fast { // thousands of events a second would only be dropped
		subscription, unsubscribe := p.client.Subscribe(
			river.EventKindJobCancelled, river.EventKindJobCompleted, river.EventKindJobFailed,
			river.EventKindJobInterrupted, river.EventKindJobSnoozed, river.EventKindQueuePaused,
			river.EventKindQueueResumed)
		defer unsubscribe()
		go p.forward(subscription)
	}

	p.out.send(event{Event: "ready", Message: p.client.ID()})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		answer, err := p.do(ctx, c)
		if err != nil {
			answer.Error = err.Error()
		}
		answer.Event, answer.Ref = "answer", c.Ref
		p.out.send(answer)
	}
	// End of input: whoever started us is done, or gone.
	return p.client.StopAndCancel(ctx)
}

func (p *program) forward(subscription <-chan *river.Event) {
	for ev := range subscription {
		line := event{Event: string(ev.Kind)}
		if ev.Job != nil {
			line.ID, line.Kind, line.Attempt, line.State = ev.Job.ID, ev.Job.Kind, ev.Job.Attempt, string(ev.Job.State)
		}
		if ev.Queue != nil {
			line.Queue = ev.Queue.Name
		}
		p.out.send(line)
	}
}

func (p *program) do(ctx context.Context, c command) (event, error) {
	switch c.Op {
	case "cancel":
		return answer(p.client.JobCancel(ctx, c.ID))
	case "delete":
		return answer(p.client.JobDelete(ctx, c.ID))
	case "insert":
		return p.insert(ctx, c)
	case "load":
		return p.load(ctx, c)
	case "pause":
		return event{}, p.client.QueuePause(ctx, c.Queue, nil)
	case "resume":
		return event{}, p.client.QueueResume(ctx, c.Queue, nil)
	case "retry":
		return answer(p.client.JobRetry(ctx, c.ID))
	case "start":
		return event{}, p.client.Start(ctx)
	case "stop":
		return event{}, p.client.StopAndCancel(ctx)
	}
	return event{}, fmt.Errorf("no such op: %q", c.Op)
}

func answer(job *rivertype.JobRow, err error) (event, error) {
	if job == nil || err != nil {
		return event{}, err
	}
	return event{ID: job.ID, Kind: job.Kind, State: string(job.State), Attempt: job.Attempt}, nil
}

func (p *program) insert(ctx context.Context, c command) (event, error) {
	a, err := jobArgs(c.Kind, c.Args)
	if err != nil {
		return event{}, err
	}
	insertOpts := &river.InsertOpts{
		MaxAttempts: c.Opts.MaxAttempts, Metadata: c.Opts.Metadata, Pending: c.Opts.Pending,
		Priority: c.Opts.Priority, Queue: c.Opts.Queue, Tags: c.Opts.Tags,
	}
	if c.Opts.ScheduledIn != 0 {
		insertOpts.ScheduledAt = time.Now().Add(duration(c.Opts.ScheduledIn))
	}
	if u := c.Opts.Unique; u != nil {
		insertOpts.UniqueOpts = river.UniqueOpts{ByArgs: u.ByArgs, ByQueue: u.ByQueue, ByState: u.ByState}
	}
	inserted, err := p.client.Insert(ctx, a, insertOpts)
	if err != nil {
		return event{}, err
	}
	line, err := answer(inserted.Job, nil)
	line.Duplicate = inserted.UniqueSkippedAsDuplicate
	return line, err
}

// load keeps about `count` noops waiting for `seconds` and answers with how many were worked in that time.
func (p *program) load(ctx context.Context, c command) (event, error) {
	const batch = 1000
	params := make([]river.InsertManyParams, batch)
	for i := range params {
		params[i] = river.InsertManyParams{Args: noopArgs{args{N: i + 1}}}
	}
	inserted, before, start := int64(0), p.done.Load(), time.Now()
	for time.Since(start) < duration(c.Seconds) {
		if inserted-(p.done.Load()-before) > int64(c.Count) {
			time.Sleep(time.Millisecond)
			continue
		}
		if _, err := p.client.InsertManyFast(ctx, params); err != nil {
			return event{}, err
		}
		inserted += batch
	}
	return event{Count: p.done.Load() - before, Seconds: time.Since(start).Seconds()}, nil
}
