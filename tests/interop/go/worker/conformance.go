package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivershared/baseservice"
	"github.com/riverqueue/river/rivershared/riverpilot"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite"
)

// conformance is Go River behind River's conformance protocol, as far as `tests/conformance` asks it: it is the side
// that riverui is compared with. It trusts its caller, so it checks no parameters.
type conformance[TTx any] struct {
	barriers

	clients      map[string]*river.Client[TTx]
	database     database[TTx]
	running      *river.Client[TTx]
	held         string // the barrier that holds the running client's first claim
	seen         *seen
	transactions map[string]TTx
}

// database is what differs between Postgres and SQLite.
type database[TTx any] struct {
	begin        func(context.Context) (TTx, error)
	commit       func(context.Context, TTx) error
	complete     func(context.Context, *river.Job[echo]) error // in a transaction of its own
	createSchema func(context.Context, string) error
	driver       riverdriver.Driver[TTx]
	exec         func(context.Context, TTx, string) error
	rollback     func(context.Context, TTx) error
}

// barriers are names to channels, closed when released.
type barriers struct{ sync.Map }

// params is what any method takes.
type params struct {
	job1

	After         string               `json:"after"`
	All           bool                 `json:"all"`
	Cancel        bool                 `json:"cancel"`
	ClientID      string               `json:"client_id"`
	Direction     string               `json:"direction"`
	Handle        string               `json:"handle"`
	ID            int64                `json:"id"`
	IDs           []int64              `json:"ids"`
	Job           job1                 `json:"job"`
	Jobs          []job1               `json:"jobs"`
	Kinds         []string             `json:"kinds"`
	Limit         int                  `json:"limit"`
	MaxWorkers    int                  `json:"max_workers"`
	Metadata      json.RawMessage      `json:"metadata"`
	Name          string               `json:"name"`
	OrderBy       string               `json:"order_by"`
	Output        any                  `json:"output"`
	Priorities    []int16              `json:"priorities"`
	Queue         string               `json:"queue"`
	Queues        []string             `json:"queues"`
	Schema        string               `json:"schema"`
	States        []rivertype.JobState `json:"states"`
	TagsAll       []string             `json:"tags_all"`
	TagsAny       []string             `json:"tags_any"`
	TargetVersion int                  `json:"target_version"`

	start
}

// start is what the working client is told; spans are milliseconds.
type start struct {
	CancelledRetention     int64    `json:"cancelled_job_retention_ms"`
	ClaimBarrier           string   `json:"claim_barrier"`
	CompletedRetention     int64    `json:"completed_job_retention_ms"`
	DiscardedRetention     int64    `json:"discarded_job_retention_ms"`
	ErrorHandlerCancel     bool     `json:"error_handler_cancel"`
	FetchPollInterval      int64    `json:"fetch_poll_interval_ms"`
	Instrumented           bool     `json:"instrumented"`
	JobStuckThreshold      int64    `json:"job_stuck_threshold_ms"`
	JobTimeout             int64    `json:"job_timeout_ms"`
	JobTimeoutDisabled     bool     `json:"job_timeout_disabled"`
	LeaderElectionDisabled bool     `json:"leader_election_disabled"`
	PeriodicRunOnStart     bool     `json:"periodic_run_on_start"`
	PeriodicUnique         bool     `json:"periodic_unique"`
	PollOnly               bool     `json:"poll_only"`
	ReindexerIndexNames    []string `json:"reindexer_index_names"`
	ReindexerInterval      int64    `json:"reindexer_interval_ms"`
	RescueAfter            int64    `json:"rescue_after_ms"`
	RetryDelay             *int64   `json:"retry_delay_ms"`
}

// echo is the args of every job of the suite.
type echo struct {
	Behavior   string `json:"behavior"`
	DurationMS int64  `json:"duration_ms"`
	Message    string `json:"message"`
}

func (echo) Kind() string { return "conformance_echo" }

type job1 struct {
	echo

	Opts struct {
		opts

		Unique *struct {
			ByArgs      bool                 `json:"by_args"`
			ByPeriodMS  int64                `json:"by_period_ms"`
			ByQueue     bool                 `json:"by_queue"`
			ByState     []rivertype.JobState `json:"by_state"`
			ExcludeKind bool                 `json:"exclude_kind"`
		} `json:"unique"`
	} `json:"opts"`
}

func (j *job1) river() river.InsertManyParams {
	inserting := j.Opts.river(time.Now())
	if u := j.Opts.Unique; u != nil {
		inserting.UniqueOpts = river.UniqueOpts{
			ByArgs: u.ByArgs, ByPeriod: span(u.ByPeriodMS), ByQueue: u.ByQueue, ByState: u.ByState,
			ExcludeKind: u.ExcludeKind,
		}
	}
	return river.InsertManyParams{Args: j.echo, InsertOpts: inserting}
}

// kept gives a retention, of which -1 is for ever.
func kept(milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return -1
	}
	return span(milliseconds)
}

func span(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }

// runConformance answers requests about a Postgres URL or a SQLite file, one at a time, until the end of input.
func runConformance(databaseURL string) error {
	ctx := context.Background()
	if file, ok := strings.CutPrefix(databaseURL, "sqlite:///"); ok {
		db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
		if err != nil {
			return err
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		return answerRequests(ctx, database[*sql.Tx]{
			begin:    func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) },
			commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
			driver:   riversqlite.New(db),
			rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		})
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	// Faults end connections that lie in the pool.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	return answerRequests(ctx, database[pgx.Tx]{
		begin:  pool.Begin,
		commit: func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		complete: func(ctx context.Context, job *river.Job[echo]) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
				return err
			})
		},
		createSchema: func(ctx context.Context, name string) error {
			_, err := pool.Exec(ctx, "create schema if not exists "+pgx.Identifier{name}.Sanitize())
			return err
		},
		driver: riverpgxv5.New(pool),
		exec: func(ctx context.Context, tx pgx.Tx, sql string) error {
			_, err := tx.Exec(ctx, sql)
			return err
		},
		rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	})
}

func answerRequests[TTx any](ctx context.Context, database database[TTx]) error {
	c := &conformance[TTx]{
		clients: map[string]*river.Client[TTx]{}, database: database, transactions: map[string]TTx{},
	}
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, 64<<20)
	answers.SetEscapeHTML(false)
	for lines.Scan() {
		var request struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
			Params params `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return err
		}
		response := map[string]any{"id": request.ID, "jsonrpc": "2.0"}
		if result, err := c.do(ctx, request.Method, &request.Params); err != nil {
			response["error"] = map[string]any{"code": code(err), "message": err.Error()}
		} else {
			response["result"] = result
		}
		if err := answers.Encode(response); err != nil {
			return err
		}
	}
	if c.running != nil {
		return c.running.StopAndCancel(ctx)
	}
	return lines.Err()
}

func code(err error) int {
	var postgres *pgconn.PgError
	switch {
	case errors.Is(err, rivertype.ErrNotFound):
		return -32001
	case errors.As(err, &postgres):
		return -32003
	}
	return -32002
}

func (b *barriers) barrier(name string) chan struct{} {
	found, _ := b.LoadOrStore(name, make(chan struct{}))
	return found.(chan struct{})
}

func (b *barriers) wait(ctx context.Context, name string) error {
	select {
	case <-b.barrier(name):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release lets go who waits at the barrier, now or later, until it is created anew.
func (b *barriers) release(name string) {
	barrier := b.barrier(name)
	select {
	case <-barrier:
	default:
		close(barrier)
	}
}

func (c *conformance[TTx]) client(schema string) (*river.Client[TTx], error) {
	if c.running != nil {
		return c.running, nil
	}
	client, ok := c.clients[schema]
	if !ok {
		var err error
		config := &river.Config{Logger: logger(), Schema: schema}
		if client, err = river.NewClient(c.database.driver, config); err != nil {
			return nil, err
		}
		c.clients[schema] = client
	}
	return client, nil
}

func (c *conformance[TTx]) do(ctx context.Context, method string, p *params) (any, error) {
	client, err := c.client(p.Schema)
	if err != nil {
		return nil, err
	}
	tx := c.transactions[p.Handle]
	done := map[string]any{}
	switch method {
	case "barrier_create":
		c.Store(p.Name, make(chan struct{}))
		return done, nil
	case "barrier_release":
		c.release(p.Name)
		return done, nil
	case "cancel":
		return normalOr(client.JobCancel(ctx, p.ID))
	case "tx_cancel":
		return normalOr(client.JobCancelTx(ctx, tx, p.ID))
	case "delete":
		return normalOr(client.JobDelete(ctx, p.ID))
	case "tx_delete":
		return normalOr(client.JobDeleteTx(ctx, tx, p.ID))
	case "delete_many":
		deleted, err := client.JobDeleteMany(ctx, p.deleting())
		if err != nil {
			return nil, err
		}
		return map[string]any{"jobs": normals(deleted.Jobs)}, nil
	case "tx_delete_many":
		deleted, err := client.JobDeleteManyTx(ctx, tx, p.deleting())
		if err != nil {
			return nil, err
		}
		return map[string]any{"jobs": normals(deleted.Jobs)}, nil
	case "get":
		return normalOr(client.JobGet(ctx, p.ID))
	case "tx_get":
		return normalOr(client.JobGetTx(ctx, tx, p.ID))
	case "insert":
		return inserted(client.InsertMany(ctx, []river.InsertManyParams{p.job1.river()}))
	case "tx_insert":
		return inserted(client.InsertManyTx(ctx, tx, []river.InsertManyParams{p.Job.river()}))
	case "insert_many":
		return insertedMany(client.InsertMany(ctx, p.jobs()))
	case "tx_insert_many":
		return insertedMany(client.InsertManyTx(ctx, tx, p.jobs()))
	case "list", "tx_list":
		wanted, err := p.listing()
		if err != nil {
			return nil, err
		}
		if p.Handle != "" {
			return page(client.JobListTx(ctx, tx, wanted))
		}
		return page(client.JobList(ctx, wanted))
	case "migrate":
		return c.migrate(ctx, p)
	case "queue_add":
		err := client.Queues().Add(p.Name, river.QueueConfig{MaxWorkers: p.MaxWorkers})
		if errors.As(err, new(*river.QueueAlreadyAddedError)) {
			if err = client.Queues().Remove(ctx, p.Name); err == nil {
				err = client.Queues().Add(p.Name, river.QueueConfig{MaxWorkers: p.MaxWorkers})
			}
		}
		return done, err
	case "queue_get":
		return queueOr(client.QueueGet(ctx, p.Name))
	case "tx_queue_get":
		return queueOr(client.QueueGetTx(ctx, tx, p.Name))
	case "queue_list":
		return queues(client.QueueList(ctx, river.NewQueueListParams().First(cmp.Or(p.Limit, 100))))
	case "tx_queue_list":
		return queues(client.QueueListTx(ctx, tx, river.NewQueueListParams().First(cmp.Or(p.Limit, 100))))
	case "queue_pause":
		return done, client.QueuePause(ctx, p.Name, nil)
	case "tx_queue_pause":
		return done, client.QueuePauseTx(ctx, tx, p.Name, nil)
	case "queue_remove":
		return done, client.Queues().Remove(ctx, p.Name)
	case "queue_resume":
		return done, client.QueueResume(ctx, p.Name, nil)
	case "tx_queue_resume":
		return done, client.QueueResumeTx(ctx, tx, p.Name, nil)
	case "queue_update":
		return queueOr(client.QueueUpdate(ctx, p.Name, &river.QueueUpdateParams{Metadata: p.Metadata}))
	case "tx_queue_update":
		return queueOr(client.QueueUpdateTx(ctx, tx, p.Name, &river.QueueUpdateParams{Metadata: p.Metadata}))
	case "request_resign":
		if p.Handle != "" {
			return done, client.Notify().RequestResignTx(ctx, tx)
		}
		return done, client.Notify().RequestResign(ctx)
	case "reset":
		c.Range(func(name, _ any) bool {
			c.release(name.(string))
			return true
		})
		return done, nil
	case "retry":
		return normalOr(client.JobRetry(ctx, p.ID))
	case "tx_retry":
		return normalOr(client.JobRetryTx(ctx, tx, p.ID))
	case "runtime_stats":
		return c.seen.read(), nil
	case "start":
		return done, c.start(ctx, p)
	case "stop":
		c.release(c.held)
		c.running = nil
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if p.Cancel {
			return done, client.StopAndCancel(ctx)
		}
		return done, client.Stop(ctx)
	case "tx_begin":
		c.transactions[p.Handle], err = c.database.begin(ctx)
		return done, err
	case "tx_commit":
		delete(c.transactions, p.Handle)
		return done, c.database.commit(ctx, tx)
	case "tx_fail":
		return nil, c.database.exec(ctx, tx, "select 1 / 0")
	case "tx_rollback":
		delete(c.transactions, p.Handle)
		return done, c.database.rollback(ctx, tx)
	case "update":
		return normalOr(client.JobUpdate(ctx, p.ID, &river.JobUpdateParams{Output: p.Output}))
	case "tx_update":
		return normalOr(client.JobUpdateTx(ctx, tx, p.ID, &river.JobUpdateParams{Output: p.Output}))
	}
	return nil, fmt.Errorf("no such method: %q", method)
}

func (p *params) jobs() []river.InsertManyParams {
	all := make([]river.InsertManyParams, len(p.Jobs))
	for i := range p.Jobs {
		all[i] = p.Jobs[i].river()
	}
	return all
}

func (p *params) listing() (*river.JobListParams, error) {
	order := map[string]river.SortOrder{"desc": river.SortOrderDesc}[p.Direction]
	f := filter{
		IDs: p.IDs, Kinds: p.Kinds, Metadata: string(p.Metadata), Priorities: p.Priorities, Queues: p.Queues,
		States: p.States, TagsAll: p.TagsAll, TagsAny: p.TagsAny,
	}
	return f.list(cmp.Or(p.Limit, 100), cmp.Or(p.OrderBy, "id"), order, p.After)
}

func (p *params) deleting() *river.JobDeleteManyParams {
	f := filter{IDs: p.IDs, Kinds: p.Kinds, Queues: p.Queues, States: p.States}
	wanted := f.delete(cmp.Or(p.Limit, 100))
	if p.All {
		return wanted.UnsafeAll()
	}
	return wanted
}

func (c *conformance[TTx]) migrate(ctx context.Context, p *params) (any, error) {
	if p.Schema != "" {
		if err := c.database.createSchema(ctx, p.Schema); err != nil {
			return nil, err
		}
	}
	migrator, err := rivermigrate.New(c.database.driver, &rivermigrate.Config{Logger: logger(), Schema: p.Schema})
	if err != nil {
		return nil, err
	}
	direction := rivermigrate.Direction(cmp.Or(p.Direction, "up"))
	applied, err := migrator.Migrate(ctx, direction, &rivermigrate.MigrateOpts{TargetVersion: p.TargetVersion})
	if err != nil {
		return nil, err
	}
	all, err := migrator.ExistingVersions(ctx)
	if err != nil {
		return nil, err
	}
	validated, err := migrator.Validate(ctx, nil)
	if err != nil {
		return nil, err
	}
	versions, existing := make([]int, len(applied.Versions)), make([]int, len(all))
	for i, version := range applied.Versions {
		versions[i] = version.Version
	}
	for i, migration := range all {
		existing[i] = migration.Version
	}
	return map[string]any{"applied": versions, "existing": existing, "valid": validated.OK}, nil
}

func (c *conformance[TTx]) start(ctx context.Context, p *params) error {
	c.seen, c.held = &seen{}, p.ClaimBarrier
	workers := river.NewWorkers()
	river.AddWorker(workers, &echoWorker{barriers: &c.barriers, complete: c.database.complete, seen: c.seen})
	config := &river.Config{
		CancelledJobRetentionPeriod: kept(p.CancelledRetention),
		CompletedJobRetentionPeriod: kept(p.CompletedRetention),
		DiscardedJobRetentionPeriod: kept(p.DiscardedRetention),
		FetchCooldown:               time.Millisecond,
		FetchPollInterval:           span(cmp.Or(p.FetchPollInterval, 10)),
		ID:                          p.ClientID,
		JobStuckHandler: func(context.Context, river.JobStuckHandlerParams) river.JobStuckHandlerResult {
			c.seen.count(&c.seen.stuckJobs)
			return river.JobStuckHandlerResult{}
		},
		JobStuckThreshold:      span(p.JobStuckThreshold),
		JobTimeout:             span(p.JobTimeout),
		LeaderElectionDisabled: p.LeaderElectionDisabled,
		Logger:                 logger(),
		PollOnly:               p.PollOnly,
		Queues:                 map[string]river.QueueConfig{cmp.Or(p.Queue, "default"): {MaxWorkers: cmp.Or(p.MaxWorkers, 4)}},
		ReindexerIndexNames:    p.ReindexerIndexNames,
		RescueStuckJobsAfter:   span(p.RescueAfter),
		Schema:                 p.Schema,
		TestOnly:               true,
		Workers:                workers,
	}
	if p.JobTimeoutDisabled {
		config.JobTimeout = -1
	}
	if p.ErrorHandlerCancel {
		config.ErrorHandler = &cancelling{c.seen}
	}
	if p.Instrumented {
		config.Plugins = []rivertype.Plugin{&tracer{seen: c.seen}}
	}
	if p.ReindexerInterval > 0 {
		config.ReindexerSchedule = river.PeriodicInterval(span(p.ReindexerInterval))
	}
	if p.RetryDelay != nil {
		config.RetryPolicy = &fixedRetry{after: span(*p.RetryDelay)}
	}
	if p.PeriodicRunOnStart {
		unique := river.UniqueOpts{ByArgs: p.PeriodicUnique, ByQueue: p.PeriodicUnique}
		config.PeriodicJobs = []*river.PeriodicJob{onStart("conformance-periodic", "periodic run on start", unique)}
		if p.PeriodicUnique {
			config.PeriodicJobs = append(config.PeriodicJobs,
				onStart("conformance-periodic-marker", "periodic marker", river.UniqueOpts{}))
		}
	}
	driver := c.database.driver
	if p.ClaimBarrier != "" {
		driver = &holdingDriver[TTx]{driver, &holdingPilot{barriers: &c.barriers, barrier: p.ClaimBarrier}}
	}
	client, err := river.NewClient(driver, config)
	if err != nil {
		return err
	}
	events, _ := client.Subscribe(
		river.EventKindJobCancelled, river.EventKindJobCompleted, river.EventKindJobFailed,
		river.EventKindJobInterrupted, river.EventKindJobSnoozed, river.EventKindQueuePaused,
		river.EventKindQueueResumed)
	go c.seen.follow(events)
	if err := client.Start(ctx); err != nil {
		return err
	}
	c.running = client
	return nil
}

func onStart(id, message string, unique river.UniqueOpts) *river.PeriodicJob {
	return river.NewPeriodicJob(
		river.PeriodicInterval(time.Hour),
		func() (river.JobArgs, *river.InsertOpts) {
			return echo{Message: message}, &river.InsertOpts{Metadata: []byte(`{"periodic":true}`), UniqueOpts: unique}
		},
		&river.PeriodicJobOpts{ID: id, RunOnStart: true},
	)
}

// echoWorker does what the job's behavior says.
type echoWorker struct {
	river.WorkerDefaults[echo]

	barriers *barriers
	complete func(context.Context, *river.Job[echo]) error
	seen     *seen
}

func (w *echoWorker) Work(ctx context.Context, job *river.Job[echo]) error {
	switch job.Args.Behavior {
	case "barrier_output", "barrier_wait":
		if err := w.barriers.wait(ctx, job.Args.Message); err != nil {
			return err
		}
		if job.Args.Behavior == "barrier_output" {
			return river.RecordOutput(ctx, map[string]any{"race": "worker"})
		}
	case "cancel":
		return river.JobCancel(errors.New("cancelled by conformance worker"))
	case "cancel_error":
		<-ctx.Done()
		return errors.New("conformance failure after cancellation")
	case "cancel_panic":
		<-ctx.Done()
		panic("conformance panic after cancellation")
	case "cooperative_cancel":
		if ctx.Err() != nil {
			w.seen.count(&w.seen.cancelledAtStart)
		}
		<-ctx.Done()
		return ctx.Err()
	case "discard":
		return errors.New("conformance discard")
	case "error":
		return errors.New("conformance retryable error")
	case "ignored_cancel":
		select {}
	case "output":
		return river.RecordOutput(ctx, map[string]any{"message": job.Args.Message})
	case "panic":
		panic("conformance worker panic")
	case "resumable", "resumable_duplicate":
		w.resumable(ctx, job, map[string]string{"resumable": "second"}[job.Args.Behavior])
	case "resumable_cursor":
		w.resumableCursor(ctx, job)
	case "sleep":
		time.Sleep(span(job.Args.DurationMS))
	case "snooze_once", "snooze_then_cancel":
		count, err := snoozes(job.JobRow)
		if err != nil || count == 0 {
			return cmp.Or(err, river.JobSnooze(span(max(job.Args.DurationMS, 1))))
		}
		if job.Args.Behavior == "snooze_then_cancel" {
			<-ctx.Done()
			return ctx.Err()
		}
	case "transactional_complete":
		if err := river.MetadataSet(ctx, "transactional_completion", true); err != nil {
			return err
		}
		return w.complete(ctx, job)
	}
	return nil
}

func (w *echoWorker) resumable(ctx context.Context, job *river.Job[echo], second string) {
	river.ResumableStep(ctx, "first", nil, func(context.Context) error {
		w.seen.count(&w.seen.firstRuns)
		return nil
	})
	river.ResumableStep(ctx, cmp.Or(second, "first"), nil, func(context.Context) error {
		w.seen.count(&w.seen.secondRuns)
		if job.Attempt == 1 {
			return errors.New("fail second resumable step once")
		}
		return nil
	})
}

func (w *echoWorker) resumableCursor(ctx context.Context, job *river.Job[echo]) {
	river.ResumableStep(ctx, "first", nil, func(ctx context.Context) error {
		return river.MetadataSet(ctx, "first_attempt", job.Attempt)
	})
	river.ResumableStepCursor(ctx, "second", nil, func(ctx context.Context, cursor int) error {
		if job.Attempt == 1 {
			return cmp.Or(river.ResumableSetCursor(ctx, 7), errors.New("retry with cursor"))
		}
		if cursor != 7 {
			return fmt.Errorf("expected cursor 7, got %d", cursor)
		}
		return river.MetadataSet(ctx, "cursor_observed", cursor)
	})
	river.ResumableStep(ctx, "third", nil, func(context.Context) error {
		if job.Attempt == 2 {
			return errors.New("retry after consuming cursor")
		}
		return nil
	})
}

// seen is what a working client has observed since its start.
type seen struct {
	mutex             sync.Mutex
	cancelledAtStart  int
	errorHandlerCalls int
	events            []string
	firstRuns         int
	periodicStarts    int
	secondRuns        int
	stuckJobs         int
	trace             []string
}

func (s *seen) count(counter *int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	*counter++
}

func (s *seen) note(list *[]string, entry string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	*list = append(*list, entry)
}

func (s *seen) follow(events <-chan *river.Event) {
	for event := range events {
		s.note(&s.events, string(event.Kind))
	}
}

func (s *seen) read() map[string]any {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return map[string]any{
		"cancelled_at_start": s.cancelledAtStart, "error_handler_calls": s.errorHandlerCalls,
		"events": append([]string{}, s.events...), "periodic_starts": s.periodicStarts,
		"resumable_first_runs": s.firstRuns, "resumable_second_runs": s.secondRuns, "stuck_jobs": s.stuckJobs,
		"trace": append([]string{}, s.trace...),
	}
}

type cancelling struct{ seen *seen }

func (h *cancelling) HandleError(context.Context, *rivertype.JobRow, error) *river.ErrorHandlerResult {
	h.seen.count(&h.seen.errorHandlerCalls)
	return &river.ErrorHandlerResult{SetCancelled: true}
}

func (h *cancelling) HandlePanic(context.Context, *rivertype.JobRow, any, string) *river.ErrorHandlerResult {
	h.seen.count(&h.seen.errorHandlerCalls)
	return &river.ErrorHandlerResult{SetCancelled: true}
}

// tracer records the order in which hooks and middleware run.
type tracer struct {
	river.PluginDefaults

	seen *seen
}

func (t *tracer) note(entry string) { t.seen.note(&t.seen.trace, entry) }

func (t *tracer) InsertBegin(context.Context, *rivertype.JobInsertParams) error {
	t.note("hook:insert_begin")
	return nil
}

func (t *tracer) InsertMany(
	ctx context.Context, _ []*rivertype.JobInsertParams,
	doInner func(context.Context) ([]*rivertype.JobInsertResult, error),
) ([]*rivertype.JobInsertResult, error) {
	t.note("middleware:insert_before")
	defer t.note("middleware:insert_after")
	return doInner(ctx)
}

func (t *tracer) Start(context.Context, *rivertype.HookPeriodicJobsStartParams) error {
	t.seen.count(&t.seen.periodicStarts)
	return nil
}

func (t *tracer) Work(ctx context.Context, _ *rivertype.JobRow, doInner func(context.Context) error) error {
	t.note("middleware:work_before")
	defer t.note("middleware:work_after")
	return doInner(ctx)
}

func (t *tracer) WorkBegin(context.Context, *rivertype.JobRow) error {
	t.note("hook:work_begin")
	return nil
}

func (t *tracer) WorkEnd(_ context.Context, _ *rivertype.JobRow, err error) error {
	t.note("hook:work_end")
	return err
}

// holdingDriver gives the client a pilot whose first claim of jobs returns them when a barrier is released.
type holdingDriver[TTx any] struct {
	riverdriver.Driver[TTx]

	pilot *holdingPilot
}

func (d *holdingDriver[TTx]) PluginInit(*baseservice.Archetype) {}

func (d *holdingDriver[TTx]) PluginPilot() riverpilot.Pilot { return d.pilot }

type holdingPilot struct {
	riverpilot.StandardPilot

	barrier  string
	barriers *barriers
	held     atomic.Bool
}

func (p *holdingPilot) JobGetAvailable(
	ctx context.Context, exec riverdriver.Executor, state riverpilot.ProducerState,
	params *riverdriver.JobGetAvailableParams,
) (*riverdriver.JobGetAvailableResult, error) {
	found, err := p.StandardPilot.JobGetAvailable(ctx, exec, state, params)
	if err == nil && len(found.Jobs) > 0 && !p.held.Swap(true) {
		_ = p.barriers.wait(ctx, p.barrier)
	}
	return found, err
}

// normal gives a job in the contract's form.
func normal(job *rivertype.JobRow) map[string]any {
	errs := make([]map[string]any, len(job.Errors))
	for i, e := range job.Errors {
		errs[i] = map[string]any{"at": e.At.UTC(), "attempt": e.Attempt, "error": e.Error, "trace": e.Trace}
	}
	metadata := decoded(job.Metadata)
	if object, ok := metadata.(map[string]any); ok {
		delete(object, "river:unique_nonce")
	}
	var key any
	if job.UniqueKey != nil {
		key = hex.EncodeToString(job.UniqueKey)
	}
	return map[string]any{
		"args": decoded(job.EncodedArgs), "attempt": job.Attempt, "attempted_at": utc(job.AttemptedAt),
		"attempted_by": append([]string{}, job.AttemptedBy...), "created_at": job.CreatedAt.UTC(), "errors": errs,
		"finalized_at": utc(job.FinalizedAt), "id": job.ID, "kind": job.Kind, "max_attempts": job.MaxAttempts,
		"metadata": metadata, "priority": job.Priority, "queue": job.Queue, "scheduled_at": job.ScheduledAt.UTC(),
		"state": job.State, "tags": append([]string{}, job.Tags...), "unique_key": key,
		"unique_states": job.UniqueStates,
	}
}

// decoded gives JSON's value with exact numbers, and nil if one is beyond a float.
func decoded(text []byte) any {
	var rounded, exact any
	if err := json.Unmarshal(text, &rounded); err != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&exact); err != nil {
		return nil
	}
	return exact
}

func utc(at *time.Time) any {
	if at == nil {
		return nil
	}
	return at.UTC()
}

func normals(jobs []*rivertype.JobRow) []map[string]any {
	all := make([]map[string]any, len(jobs))
	for i, job := range jobs {
		all[i] = normal(job)
	}
	return all
}

func normalOr(job *rivertype.JobRow, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return normal(job), nil
}

func inserted(results []*rivertype.JobInsertResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return normal(results[0].Job), nil
}

func insertedMany(results []*rivertype.JobInsertResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	all := make([]map[string]any, len(results))
	for i, r := range results {
		all[i] = map[string]any{"job": normal(r.Job), "unique_skipped_as_duplicate": r.UniqueSkippedAsDuplicate}
	}
	return map[string]any{"results": all}, nil
}

func page(found *river.JobListResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	var cursor any
	if found.LastCursor != nil {
		text, err := found.LastCursor.MarshalText()
		if err != nil {
			return nil, err
		}
		cursor = string(text)
	}
	return map[string]any{"cursor": cursor, "jobs": normals(found.Jobs)}, nil
}

func queueOr(queue *rivertype.Queue, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return normalQueue(queue), nil
}

func normalQueue(queue *rivertype.Queue) map[string]any {
	return map[string]any{
		"created_at": queue.CreatedAt.UTC(), "metadata": decoded(queue.Metadata), "name": queue.Name,
		"paused_at": utc(queue.PausedAt), "updated_at": queue.UpdatedAt.UTC(),
	}
}

func queues(found *river.QueueListResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	all := make([]map[string]any, len(found.Queues))
	for i, queue := range found.Queues {
		all[i] = normalQueue(queue)
	}
	return map[string]any{"queues": all}, nil
}
