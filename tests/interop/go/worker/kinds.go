package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverlog"
	"github.com/riverqueue/river/rivertype"
)

// args is what every kind takes; each kind reads its own fields. Their order is the order of the JSON.
type args struct {
	Failures int             `json:"failures,omitempty"` // flaky, log, soak: attempts that fail before one succeeds
	Lines    int             `json:"lines,omitempty"`    // log: lines to write
	Message  string          `json:"message,omitempty"`  // cancel, fail, flaky: the error; log: the line; soak: how it ends
	N        int             `json:"n,omitempty"`        // noop, soak: tells jobs apart
	Panic    bool            `json:"panic,omitempty"`    // fail: panic instead of returning an error
	RetryIn  float64         `json:"retry_in,omitempty"` // seconds to the next attempt; 0 is the client's policy
	Seconds  float64         `json:"seconds,omitempty"`  // sleep, snooze, soak: how long
	Stubborn bool            `json:"stubborn,omitempty"` // block: goes on when it is cancelled
	Times    int             `json:"times,omitempty"`    // snooze, soak: how often before it completes
	Value    json.RawMessage `json:"value,omitempty"`    // metadata, output: what to record
}

type (
	named interface{ name() string }

	block    struct{}
	cancel   struct{}
	fail     struct{}
	flaky    struct{}
	log      struct{}
	metadata struct{}
	noop     struct{}
	output   struct{}
	sleep    struct{}
	snooze   struct{}
	soak     struct{}
	steps    struct{}
)

func (block) name() string    { return "block" }
func (cancel) name() string   { return "cancel" }
func (fail) name() string     { return "fail" }
func (flaky) name() string    { return "flaky" }
func (log) name() string      { return "log" }
func (metadata) name() string { return "metadata" }
func (noop) name() string     { return "noop" }
func (output) name() string   { return "output" }
func (sleep) name() string    { return "sleep" }
func (snooze) name() string   { return "snooze" }
func (soak) name() string     { return "soak" }
func (steps) name() string    { return "steps" }

// of gives the args of one kind.
type of[K named] struct{ args }

func (of[K]) Kind() string {
	var kind K
	return kind.name()
}

// rawArgs is any kind with any args.
type rawArgs struct {
	kind string
	text json.RawMessage
}

func (a rawArgs) Kind() string { return a.kind }

func (a rawArgs) MarshalJSON() ([]byte, error) {
	if len(a.text) == 0 {
		return []byte("{}"), nil
	}
	return a.text, nil
}

type work func(ctx context.Context, p *program, job *rivertype.JobRow, a args) error

type kind struct {
	add  func(all *river.Workers, p *program)
	args func(a args) river.JobArgs
}

func define[K named](do work) kind {
	return kind{
		add:  func(all *river.Workers, p *program) { river.AddWorker(all, &worker[K]{program: p, work: do}) },
		args: func(a args) river.JobArgs { return of[K]{a} },
	}
}

func kinds() map[string]kind {
	return map[string]kind{
		"block":    define[block](workBlock),
		"cancel":   define[cancel](workCancel),
		"fail":     define[fail](workFail),
		"flaky":    define[flaky](workFlaky),
		"log":      define[log](workLog),
		"metadata": define[metadata](workMetadata),
		"noop":     define[noop](workNoop),
		"output":   define[output](workOutput),
		"sleep":    define[sleep](workSleep),
		"snooze":   define[snooze](workSnooze),
		"soak":     define[soak](workSoak),
		"steps":    define[steps](workSteps),
	}
}

// jobArgs gives the args of a kind by name, for inserts.
func jobArgs(name string, a args) (river.JobArgs, error) {
	if found, ok := kinds()[name]; ok {
		return found.args(a), nil
	}
	return nil, fmt.Errorf("no such kind: %q", name)
}

// workers knows these kinds, or all there are.
func (p *program) workers(names []string) (*river.Workers, error) {
	all, known := river.NewWorkers(), kinds()
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(known))
	}
	for _, name := range names {
		found, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("no such kind: %q", name)
		}
		found.add(all, p)
	}
	return all, nil
}

// worker works one kind and reports each start.
type worker[K named] struct {
	river.WorkerDefaults[of[K]]

	program *program
	work    work
}

func (w *worker[K]) NextRetry(job *river.Job[of[K]]) time.Time {
	if job.Args.RetryIn > 0 {
		return time.Now().Add(duration(job.Args.RetryIn))
	}
	return time.Time{}
}

func (w *worker[K]) Work(ctx context.Context, job *river.Job[of[K]]) error {
	if !w.program.settings.Quiet {
		w.program.out.send(event{
			Event: "started", ID: job.ID, Kind: job.Kind, Attempt: job.Attempt, Queue: job.Queue,
			Message: string(job.EncodedArgs),
		})
	}
	return w.work(ctx, w.program, job.JobRow, job.Args.args)
}

// released tells blocked jobs to go on.
type released struct{ ids sync.Map }

func (r *released) channel(id int64) chan struct{} {
	found, _ := r.ids.LoadOrStore(id, make(chan struct{}))
	return found.(chan struct{})
}

func (r *released) release(id int64) { close(r.channel(id)) }

func workBlock(ctx context.Context, p *program, job *rivertype.JobRow, a args) error {
	select {
	case <-p.released.channel(job.ID):
		return nil
	case <-ctx.Done():
		p.interrupted(ctx, job)
	}
	if a.Stubborn {
		<-p.released.channel(job.ID)
		return nil
	}
	return ctx.Err()
}

func workCancel(_ context.Context, _ *program, _ *rivertype.JobRow, a args) error {
	return river.JobCancel(errors.New(a.Message))
}

func workFail(_ context.Context, _ *program, _ *rivertype.JobRow, a args) error {
	if a.Panic {
		panic(a.Message)
	}
	return errors.New(a.Message)
}

func workFlaky(_ context.Context, _ *program, job *rivertype.JobRow, a args) error {
	if len(job.Errors) < a.Failures {
		return fmt.Errorf("%s (attempt %d)", a.Message, job.Attempt)
	}
	return nil
}

func workLog(ctx context.Context, _ *program, job *rivertype.JobRow, a args) error {
	for line := range a.Lines {
		riverlog.Logger(ctx).InfoContext(ctx, a.Message, "line", line+1, "attempt", job.Attempt)
	}
	if len(job.Errors) < a.Failures {
		return errors.New("failed after logging")
	}
	return nil
}

func workMetadata(ctx context.Context, _ *program, _ *rivertype.JobRow, a args) error {
	var values map[string]any
	if err := json.Unmarshal(a.Value, &values); err != nil {
		return err
	}
	for key, value := range values {
		if err := river.MetadataSet(ctx, key, value); err != nil {
			return err
		}
	}
	return nil
}

// workNoop does nothing but count; a load of thousands a second stays quiet.
func workNoop(_ context.Context, p *program, _ *rivertype.JobRow, _ args) error {
	p.done.Add(1)
	return nil
}

func workOutput(ctx context.Context, _ *program, _ *rivertype.JobRow, a args) error {
	return river.RecordOutput(ctx, a.Value)
}

func workSleep(ctx context.Context, p *program, job *rivertype.JobRow, a args) error {
	select {
	case <-time.After(duration(a.Seconds)):
		return nil
	case <-ctx.Done():
		p.interrupted(ctx, job)
		return ctx.Err()
	}
}

func workSnooze(_ context.Context, _ *program, job *rivertype.JobRow, a args) error {
	count, err := snoozes(job)
	if err == nil && count < a.Times {
		return river.JobSnooze(duration(a.Seconds))
	}
	return err
}

// workSoak fails, snoozes and ends as its args say, and keeps a journal of it.
func workSoak(ctx context.Context, p *program, job *rivertype.JobRow, a args) error {
	p.write("start", job)
	if a.Seconds > 0 {
		select {
		case <-time.After(duration(a.Seconds)):
		case <-ctx.Done():
			p.write("stop", job)
			return ctx.Err()
		}
	}
	count, err := snoozes(job)
	if err != nil {
		return err
	}
	if count < a.Times {
		p.write("snooze", job)
		return river.JobSnooze(0)
	}
	failed := 0
	for _, attempt := range job.Errors {
		if strings.HasSuffix(attempt.Error, "on purpose") {
			failed++
		}
	}
	if failed < a.Failures || a.Message == "discarded" {
		p.write("fail", job)
		return errors.New("on purpose")
	}
	p.write("end", job)
	if a.Message == "cancelled" {
		return river.JobCancel(errors.New("on purpose"))
	}
	return nil
}

// workSteps takes three resumable steps; the second walks to 4 and fails on its way as often as it is told to.
func workSteps(ctx context.Context, p *program, job *rivertype.JobRow, a args) error {
	step := func(name string) {
		p.out.send(event{Event: "step", ID: job.ID, Message: name, Attempt: job.Attempt})
	}
	river.ResumableStep(ctx, "first", nil, func(context.Context) error {
		step("first")
		return nil
	})
	river.ResumableStepCursor(ctx, "second", nil, func(ctx context.Context, cursor int) error {
		for at := cursor; at < 4; at++ {
			step(fmt.Sprintf("second %d", at))
			if err := river.ResumableSetCursor(ctx, at+1); err != nil {
				return err
			}
			if len(job.Errors) < a.Failures && at >= job.Attempt {
				return errors.New("tripped")
			}
		}
		return nil
	})
	river.ResumableStep(ctx, "third", nil, func(context.Context) error {
		step("third")
		return nil
	})
	return nil
}

func (p *program) interrupted(ctx context.Context, job *rivertype.JobRow) {
	p.out.send(event{Event: "interrupted", ID: job.ID, Kind: job.Kind, Message: context.Cause(ctx).Error()})
}

// write adds a line to the journal: what a job did survives the process.
func (p *program) write(what string, job *rivertype.JobRow) {
	if p.journal != nil {
		fmt.Fprintf(p.journal, "%s %d %d\n", what, job.ID, job.Attempt)
	}
}

func snoozes(job *rivertype.JobRow) (int, error) {
	var counted struct {
		Snoozes int `json:"snoozes"`
	}
	err := json.Unmarshal(job.Metadata, &counted)
	return counted.Snoozes, err
}
