package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverlog"
)

// args is what every kind takes; each kind reads its own fields.
type args struct {
	Failures int             `json:"failures,omitempty"` // flaky: attempts that fail before one succeeds
	Lines    int             `json:"lines,omitempty"`    // log: lines to write
	Message  string          `json:"message,omitempty"`  // fail, flaky: the error; log: the line
	N        int             `json:"n,omitempty"`        // noop: tells jobs apart
	Panic    bool            `json:"panic,omitempty"`    // fail: panic instead of returning an error
	RetryIn  float64         `json:"retry_in,omitempty"` // fail, flaky: seconds to the next attempt; 0 is River's policy
	Seconds  float64         `json:"seconds,omitempty"`  // sleep, snooze: how long
	Times    int             `json:"times,omitempty"`    // snooze: how often before it completes
	Value    json.RawMessage `json:"value,omitempty"`    // output: what to record
}

type (
	failArgs   struct{ args }
	flakyArgs  struct{ args }
	logArgs    struct{ args }
	noopArgs   struct{ args }
	outputArgs struct{ args }
	sleepArgs  struct{ args }
	snoozeArgs struct{ args }
)

func (failArgs) Kind() string   { return "fail" }
func (flakyArgs) Kind() string  { return "flaky" }
func (logArgs) Kind() string    { return "log" }
func (noopArgs) Kind() string   { return "noop" }
func (outputArgs) Kind() string { return "output" }
func (sleepArgs) Kind() string  { return "sleep" }
func (snoozeArgs) Kind() string { return "snooze" }

// jobArgs gives the args of a kind by name, for inserts.
func jobArgs(kind string, a args) (river.JobArgs, error) {
	switch kind {
	case "fail":
		return failArgs{a}, nil
	case "flaky":
		return flakyArgs{a}, nil
	case "log":
		return logArgs{a}, nil
	case "noop":
		return noopArgs{a}, nil
	case "output":
		return outputArgs{a}, nil
	case "sleep":
		return sleepArgs{a}, nil
	case "snooze":
		return snoozeArgs{a}, nil
	}
	return nil, fmt.Errorf("no such kind: %q", kind)
}

// worker works one kind and reports each start.
type worker[T river.JobArgs] struct {
	river.WorkerDefaults[T]

	args func(T) args
	out  *events
	work func(ctx context.Context, job *river.Job[T], a args) error
}

func (w *worker[T]) NextRetry(job *river.Job[T]) time.Time {
	if seconds := w.args(job.Args).RetryIn; seconds > 0 {
		return time.Now().Add(duration(seconds))
	}
	return time.Time{}
}

func (w *worker[T]) Work(ctx context.Context, job *river.Job[T]) error {
	w.out.send(event{Event: "started", ID: job.ID, Kind: job.Kind, Attempt: job.Attempt, Queue: job.Queue})
	return w.work(ctx, job, w.args(job.Args))
}

// noop does nothing but count; a load of thousands a second stays quiet.
type noop struct {
	river.WorkerDefaults[noopArgs]

	done  *atomic.Int64
	out   *events
	quiet bool
}

func (w *noop) Work(_ context.Context, job *river.Job[noopArgs]) error {
	w.done.Add(1)
	if !w.quiet {
		w.out.send(event{Event: "started", ID: job.ID, Kind: job.Kind, Attempt: job.Attempt, Queue: job.Queue})
	}
	return nil
}

func workers(out *events, done *atomic.Int64, quiet bool) *river.Workers {
	all := river.NewWorkers()
	river.AddWorker(all, &noop{done: done, out: out, quiet: quiet})
	river.AddWorker(all, &worker[failArgs]{out: out, args: func(a failArgs) args { return a.args }, work: workFail})
	river.AddWorker(all, &worker[flakyArgs]{out: out, args: func(a flakyArgs) args { return a.args }, work: workFlaky})
	river.AddWorker(all, &worker[logArgs]{out: out, args: func(a logArgs) args { return a.args }, work: workLog})
	river.AddWorker(all, &worker[outputArgs]{out: out, args: func(a outputArgs) args { return a.args }, work: workOutput})
	river.AddWorker(all, &worker[sleepArgs]{out: out, args: func(a sleepArgs) args { return a.args }, work: workSleep(out)})
	river.AddWorker(all, &worker[snoozeArgs]{out: out, args: func(a snoozeArgs) args { return a.args }, work: workSnooze})
	return all
}

func workFail(_ context.Context, _ *river.Job[failArgs], a args) error {
	if a.Panic {
		panic(a.Message)
	}
	return errors.New(a.Message)
}

func workFlaky(_ context.Context, job *river.Job[flakyArgs], a args) error {
	if len(job.Errors) < a.Failures {
		return fmt.Errorf("%s (attempt %d)", a.Message, job.Attempt)
	}
	return nil
}

func workLog(ctx context.Context, job *river.Job[logArgs], a args) error {
	for line := range a.Lines {
		riverlog.Logger(ctx).InfoContext(ctx, a.Message, "line", line+1, "attempt", job.Attempt)
	}
	if len(job.Errors) < a.Failures {
		return errors.New("failed after logging")
	}
	return nil
}

func workOutput(ctx context.Context, _ *river.Job[outputArgs], a args) error {
	return river.RecordOutput(ctx, a.Value)
}

func workSleep(out *events) func(context.Context, *river.Job[sleepArgs], args) error {
	return func(ctx context.Context, job *river.Job[sleepArgs], a args) error {
		select {
		case <-time.After(duration(a.Seconds)):
			return nil
		case <-ctx.Done():
			out.send(event{Event: "interrupted", ID: job.ID, Kind: job.Kind, Message: context.Cause(ctx).Error()})
			return ctx.Err()
		}
	}
}

func workSnooze(_ context.Context, job *river.Job[snoozeArgs], a args) error {
	var metadata struct {
		Snoozes int `json:"snoozes"`
	}
	if err := json.Unmarshal(job.Metadata, &metadata); err != nil {
		return err
	}
	if metadata.Snoozes < a.Times {
		return river.JobSnooze(duration(a.Seconds))
	}
	return nil
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
