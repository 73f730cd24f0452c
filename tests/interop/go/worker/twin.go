package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertest"
	"github.com/riverqueue/river/rivertype"
)

// driver calls a method of River's own driver, whichever: its params are Go's struct as JSON, its result as well.
func (p *program) driver(ctx context.Context, c command) (event, error) {
	method := reflect.ValueOf(p.client.Driver().GetExecutor()).MethodByName(c.Method)
	if !method.IsValid() {
		return event{}, fmt.Errorf("no such method: %q", c.Method)
	}
	params := reflect.New(method.Type().In(1).Elem())
	if err := json.Unmarshal(c.Params, params.Interface()); err != nil {
		return event{}, err
	}
	if schema := params.Elem().FieldByName("Schema"); schema.IsValid() {
		schema.SetString(p.settings.Schema)
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx), params})
	if err, _ := results[len(results)-1].Interface().(error); err != nil {
		return event{}, err
	}
	return event{Result: results[0].Interface()}, nil
}

// script says how an attempt ends.
type script struct {
	Do       string         `json:"do"` // complete cancel error interrupt panic remote_cancel snooze
	Message  string         `json:"message"`
	Metadata map[string]any `json:"metadata"`
	Output   any            `json:"output"`
	RetryAt  time.Time      `json:"retry_at"` // the worker's own; zero leaves it to the client
	RetryIn  float64        `json:"retry_in"` // the client's
	Seconds  float64        `json:"seconds"`  // snooze
}

// scripts works running jobs by script through River's own executor.
type scripts struct {
	rivertest *rivertest.Worker[rawArgs, pgx.Tx]

	cancel context.CancelCauseFunc
	mutex  sync.Mutex
	script script
}

type scripted struct {
	river.WorkerDefaults[rawArgs]

	*scripts
}

func (s *scripted) NextRetry(*river.Job[rawArgs]) time.Time { return s.script.RetryAt }

func (s *scripted) Work(ctx context.Context, _ *river.Job[rawArgs]) error {
	for key, value := range s.script.Metadata {
		if err := river.MetadataSet(ctx, key, value); err != nil {
			return err
		}
	}
	if s.script.Output != nil {
		if err := river.RecordOutput(ctx, s.script.Output); err != nil {
			return err
		}
	}
	switch s.script.Do {
	case "cancel":
		return river.JobCancel(errors.New(s.script.Message))
	case "complete":
		return nil
	case "error":
		return errors.New(s.script.Message)
	case "panic":
		panic(s.script.Message)
	case "remote_cancel":
		s.cancel(rivertype.ErrJobCancelledRemotely)
		return errors.New(s.script.Message)
	case "snooze":
		return river.JobSnooze(duration(s.script.Seconds))
	}
	return fmt.Errorf("no such script: %q", s.script.Do)
}

// ownClock leaves the database to its own clock, as River does outside of tests.
type ownClock struct{ *clock }

func (*ownClock) NowOrNil() *time.Time { return nil }

// scriptRetry is the client's retry policy while a script is worked.
type scriptRetry struct {
	*clock
	*scripts
}

func (r *scriptRetry) NextRetry(*rivertype.JobRow) time.Time {
	return r.Now().Add(duration(r.script.RetryIn))
}

// execute ends the running attempt of a job as a script says, by River's own executor and its inline completer.
//
// rivertest starts an attempt of its own, so the one that runs is taken back first; when it started stays.
func (p *program) execute(ctx context.Context, c command) (event, error) {
	if p.scripts == nil {
		p.scripts = &scripts{}
		p.scripts.rivertest = rivertest.NewWorker(&fatal{}, riverpgxv5.New(p.pool), &river.Config{
			ID: "twin", JobTimeout: -1, Logger: logger(), RetryPolicy: &scriptRetry{p.clock, p.scripts},
			Schema: p.settings.Schema, Test: river.TestConfig{Time: &ownClock{p.clock}},
		}, &scripted{scripts: p.scripts})
	}
	p.scripts.mutex.Lock()
	defer p.scripts.mutex.Unlock()
	p.scripts.script = c.Script

	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return event{}, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // committed by then, or failed already
	driver := p.client.Driver().UnwrapExecutor(tx)
	before, err := driver.JobGetByID(ctx, &riverdriver.JobGetByIDParams{ID: c.ID, Schema: p.settings.Schema})
	if err != nil {
		return event{}, err
	}
	taken := *before
	taken.Attempt, taken.AttemptedBy = before.Attempt-1, slices.Clone(before.AttemptedBy[:len(before.AttemptedBy)-1])

	workCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.scripts.cancel = cancel
	result, err := workJob(workCtx, p.scripts.rivertest, tx, &taken)
	if result == nil {
		return event{}, err
	}
	if _, err = driver.JobUpdateFull(ctx, &riverdriver.JobUpdateFullParams{
		ID: c.ID, Schema: p.settings.Schema,
		AttemptedAtDoUpdate: true, AttemptedAt: before.AttemptedAt,
		AttemptedByDoUpdate: true, AttemptedBy: before.AttemptedBy,
	}); err != nil {
		return event{}, err
	}
	if err := tx.Commit(ctx); err != nil {
		return event{}, err
	}
	line, err := answer(result.Job, nil)
	line.Message = string(result.EventKind)
	return line, err
}

func workJob(ctx context.Context, worker *rivertest.Worker[rawArgs, pgx.Tx], tx pgx.Tx, job *rivertype.JobRow) (result *rivertest.WorkResult, err error) {
	defer func() {
		if told := recover(); told != nil {
			err = fmt.Errorf("rivertest: %v", told)
		}
	}()
	return worker.WorkJob(ctx, &fatal{}, tx, job)
}

// fatal stands in for a test of Go's: rivertest asks for one.
type fatal struct{ testing.TB }

func (*fatal) Helper()                         {}
func (*fatal) Fatal(told ...any)               { panic(fmt.Sprint(told...)) }
func (*fatal) Fatalf(told string, args ...any) { panic(fmt.Sprintf(told, args...)) }
func (*fatal) Log(...any)                      {}
func (*fatal) Logf(string, ...any)             {}
