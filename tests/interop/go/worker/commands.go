package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

type command struct {
	Args    args            `json:"args"`
	Count   int             `json:"count"` // load: how many jobs to keep waiting; list: how many rows; insert: how often
	Cursor  string          `json:"cursor"`
	Filter  filter          `json:"filter"`
	Fast    bool            `json:"fast"` // insert_many: by COPY
	Hard    bool            `json:"hard"` // stop: cancels what runs
	ID      int64           `json:"id"`
	Jobs    []job           `json:"jobs"`
	Kind    string          `json:"kind"`
	Method  string          `json:"method"` // driver: which
	Now     string          `json:"now"`    // the time from here on: an instant, or "real"; empty leaves it
	Op      string          `json:"op"`
	Opts    opts            `json:"opts"`
	Order   string          `json:"order"` // list: id, scheduled_at, finalized_at or time
	Desc    bool            `json:"desc"`
	Params  json.RawMessage `json:"params"` // driver: its params
	Queue   string          `json:"queue"`
	Ref     string          `json:"ref"`
	Script  script          `json:"script"`
	Seconds float64         `json:"seconds"` // load: for how long
	Value   json.RawMessage `json:"value"`   // update: the output; queue_update: the metadata
}

type job struct {
	Args json.RawMessage `json:"args"`
	Kind string          `json:"kind"`
	Opts opts            `json:"opts"`
}

// filter is what list and delete_many look for; what is empty does not filter.
type filter struct {
	IDs        []int64              `json:"ids"`
	Kinds      []string             `json:"kinds"`
	Metadata   string               `json:"metadata"` // list only
	Priorities []int16              `json:"priorities"`
	Queues     []string             `json:"queues"`
	States     []rivertype.JobState `json:"states"`
	TagsAll    []string             `json:"tags_all"` // list only
	TagsAny    []string             `json:"tags_any"` // list only
}

type opts struct {
	MaxAttempts int             `json:"max_attempts"`
	Metadata    json.RawMessage `json:"metadata"`
	Pending     bool            `json:"pending"`
	Priority    int             `json:"priority"`
	Queue       string          `json:"queue"`
	ScheduledAt time.Time       `json:"scheduled_at"`
	ScheduledIn float64         `json:"scheduled_in"` // seconds from now; 0 is at once
	Tags        []string        `json:"tags"`
	Unique      *struct {
		ByArgs      bool                 `json:"by_args"`
		ByPeriod    float64              `json:"by_period"`
		ByQueue     bool                 `json:"by_queue"`
		ByState     []rivertype.JobState `json:"by_state"`
		ExcludeKind bool                 `json:"exclude_kind"`
	} `json:"unique"`
}

func (o *opts) river(now time.Time) *river.InsertOpts {
	inserting := &river.InsertOpts{
		MaxAttempts: o.MaxAttempts, Metadata: o.Metadata, Pending: o.Pending, Priority: o.Priority, Queue: o.Queue,
		ScheduledAt: o.ScheduledAt, Tags: o.Tags,
	}
	if o.ScheduledIn != 0 {
		inserting.ScheduledAt = now.Add(duration(o.ScheduledIn))
	}
	if u := o.Unique; u != nil {
		inserting.UniqueOpts = river.UniqueOpts{
			ByArgs: u.ByArgs, ByPeriod: duration(u.ByPeriod), ByQueue: u.ByQueue, ByState: u.ByState,
			ExcludeKind: u.ExcludeKind,
		}
	}
	return inserting
}

func (p *program) do(ctx context.Context, c command) (event, error) {
	if err := p.clock.set(c.Now); err != nil {
		return event{}, err
	}
	switch c.Op {
	case "cancel":
		return answer(p.client.JobCancel(ctx, c.ID))
	case "delete":
		return answer(p.client.JobDelete(ctx, c.ID))
	case "delete_many":
		return p.deleteMany(ctx, c)
	case "driver":
		return p.driver(ctx, c)
	case "execute":
		return p.execute(ctx, c)
	case "get":
		return answer(p.client.JobGet(ctx, c.ID))
	case "insert":
		return p.insert(ctx, c)
	case "insert_many":
		return p.insertMany(ctx, c)
	case "list":
		return p.list(ctx, c)
	case "load":
		return p.load(ctx, c)
	case "pause":
		return event{}, p.client.QueuePause(ctx, c.Queue, nil)
	case "periodic_add":
		added := &periodic{}
		if err := json.Unmarshal(c.Value, added); err != nil {
			return event{}, err
		}
		_, err := p.client.PeriodicJobs().AddSafely(added.river())
		return event{}, err
	case "queue_update":
		_, err := p.client.QueueUpdate(ctx, c.Queue, &river.QueueUpdateParams{Metadata: c.Value})
		return event{}, err
	case "release":
		p.released.release(c.ID)
		return event{}, nil
	case "request_resign":
		return event{}, p.client.Notify().RequestResign(ctx)
	case "resume":
		return event{}, p.client.QueueResume(ctx, c.Queue, nil)
	case "retry":
		return answer(p.client.JobRetry(ctx, c.ID))
	case "start":
		return event{}, p.start(ctx)
	case "stop":
		if c.Hard {
			return event{}, p.client.StopAndCancel(ctx)
		}
		return event{}, p.client.Stop(ctx)
	case "update":
		return answer(p.client.JobUpdate(ctx, c.ID, &river.JobUpdateParams{Output: c.Value}))
	}
	return event{}, fmt.Errorf("no such op: %q", c.Op)
}

// answer tells of one job, as Go read it.
func answer(job *rivertype.JobRow, err error) (event, error) {
	if job == nil || err != nil {
		return event{}, err
	}
	return event{ID: job.ID, Kind: job.Kind, State: string(job.State), Attempt: job.Attempt, Result: read(job)}, nil
}

// read gives every column of a job as Go's client read it.
func read(job *rivertype.JobRow) map[string]any {
	return map[string]any{
		"args": json.RawMessage(job.EncodedArgs), "attempt": job.Attempt, "attempted_at": job.AttemptedAt,
		"attempted_by": job.AttemptedBy, "created_at": job.CreatedAt, "errors": job.Errors,
		"finalized_at": job.FinalizedAt, "id": job.ID, "kind": job.Kind, "max_attempts": job.MaxAttempts,
		"metadata": json.RawMessage(job.Metadata), "output": json.RawMessage(job.Output()), "priority": job.Priority,
		"queue": job.Queue, "scheduled_at": job.ScheduledAt, "state": job.State, "tags": job.Tags,
		"unique_key": job.UniqueKey, "unique_states": job.UniqueStates,
	}
}

func (p *program) insert(ctx context.Context, c command) (event, error) {
	a, err := jobArgs(c.Kind, c.Args)
	if err != nil {
		return event{}, err
	}
	inserted, err := p.client.Insert(ctx, a, c.Opts.river(p.clock.Now()))
	if err != nil {
		return event{}, err
	}
	line, err := answer(inserted.Job, nil)
	line.Duplicate = inserted.UniqueSkippedAsDuplicate
	return line, err
}

// insertMany takes any kind and any args, and gives an id and whether it was a duplicate for each.
func (p *program) insertMany(ctx context.Context, c command) (event, error) {
	params := make([]river.InsertManyParams, 0, len(c.Jobs)*max(c.Count, 1))
	for range max(c.Count, 1) {
		for _, job := range c.Jobs {
			params = append(params, river.InsertManyParams{
				Args: rawArgs{kind: job.Kind, text: job.Args}, InsertOpts: job.Opts.river(p.clock.Now()),
			})
		}
	}
	if c.Fast {
		count, err := p.client.InsertManyFast(ctx, params)
		return event{Count: int64(count)}, err
	}
	inserted, err := p.client.InsertMany(ctx, params)
	if err != nil {
		return event{}, err
	}
	results := make([]map[string]any, len(inserted))
	for i, result := range inserted {
		results[i] = map[string]any{"id": result.Job.ID, "duplicate": result.UniqueSkippedAsDuplicate}
	}
	return event{Count: int64(len(inserted)), Result: results}, nil
}

// list gives one page of jobs: their ids, and the cursor of the page after it.
func (p *program) list(ctx context.Context, c command) (event, error) {
	order := river.SortOrderAsc
	if c.Desc {
		order = river.SortOrderDesc
	}
	params, err := c.Filter.list(max(c.Count, 1), c.Order, order, c.Cursor)
	if err != nil {
		return event{}, err
	}
	page, err := p.client.JobList(ctx, params)
	if err != nil {
		return event{}, err
	}
	line := event{Result: ids(page.Jobs)}
	if page.LastCursor != nil {
		text, err := page.LastCursor.MarshalText()
		if err != nil {
			return event{}, err
		}
		line.Message = string(text)
	}
	return line, nil
}

func (f *filter) list(first int, field string, order river.SortOrder, after string) (*river.JobListParams, error) {
	params := river.NewJobListParams().First(first)
	if len(f.IDs) > 0 {
		params = params.IDs(f.IDs...)
	}
	if len(f.Kinds) > 0 {
		params = params.Kinds(f.Kinds...)
	}
	if f.Metadata != "" {
		params = params.Metadata(f.Metadata)
	}
	if len(f.Priorities) > 0 {
		params = params.Priorities(f.Priorities...)
	}
	if len(f.Queues) > 0 {
		params = params.Queues(f.Queues...)
	}
	if len(f.States) > 0 {
		params = params.States(f.States...)
	}
	if len(f.TagsAll) > 0 {
		params = params.TagsAll(f.TagsAll...)
	}
	if len(f.TagsAny) > 0 {
		params = params.TagsAny(f.TagsAny...)
	}
	params = params.OrderBy(river.JobListOrderByField(field), order)
	if after != "" {
		cursor := &river.JobListCursor{}
		if err := cursor.UnmarshalText([]byte(after)); err != nil {
			return nil, err
		}
		params = params.After(cursor)
	}
	return params, nil
}

// deleteMany gives the ids of what it deleted.
func (p *program) deleteMany(ctx context.Context, c command) (event, error) {
	deleted, err := p.client.JobDeleteMany(ctx, c.Filter.delete(max(c.Count, 1)))
	if err != nil {
		return event{}, err
	}
	return event{Result: ids(deleted.Jobs)}, nil
}

func (f *filter) delete(first int) *river.JobDeleteManyParams {
	params := river.NewJobDeleteManyParams().First(first)
	if len(f.IDs) > 0 {
		params = params.IDs(f.IDs...)
	}
	if len(f.Kinds) > 0 {
		params = params.Kinds(f.Kinds...)
	}
	if len(f.Priorities) > 0 {
		params = params.Priorities(f.Priorities...)
	}
	if len(f.Queues) > 0 {
		params = params.Queues(f.Queues...)
	}
	if len(f.States) > 0 {
		params = params.States(f.States...)
	}
	return params
}

func ids(jobs []*rivertype.JobRow) []int64 {
	all := make([]int64, len(jobs))
	for i, job := range jobs {
		all[i] = job.ID
	}
	return all
}

// load keeps about `count` noops waiting for `seconds` and answers with how many were worked in that time.
func (p *program) load(ctx context.Context, c command) (event, error) {
	const batch = 1000
	params := make([]river.InsertManyParams, batch)
	for i := range params {
		params[i] = river.InsertManyParams{Args: of[noop]{args{N: i + 1}}}
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
