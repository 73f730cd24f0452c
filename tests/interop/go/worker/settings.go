package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverlog"
	"github.com/riverqueue/river/rivertype"
)

// settings is what a client can be told; spans are seconds, and what is 0 or empty is River's default.
type settings struct {
	CompletedRetention     float64        `json:"completed_retention"`
	FetchCooldown          float64        `json:"fetch_cooldown"`
	FetchOnlyKnownKinds    bool           `json:"fetch_only_known_kinds"`
	FetchPollInterval      float64        `json:"fetch_poll_interval"`
	ID                     string         `json:"id"`
	JobTimeout             float64        `json:"job_timeout"` // 0 is none
	Journal                string         `json:"journal"`     // the file that the soak kind writes to
	Kinds                  []string       `json:"kinds"`       // the kinds known; empty is all of them
	LeaderElectionDisabled bool           `json:"leader_election_disabled"`
	Periodic               []periodic     `json:"periodic"`
	PollOnly               bool           `json:"poll_only"`
	Queues                 map[string]int `json:"queues"` // how many jobs at a time
	Quiet                  bool           `json:"quiet"`  // no events of single jobs
	RescueAfter            float64        `json:"rescue_after"`
	RetryIn                float64        `json:"retry_in"` // to the next attempt, whatever went before
	SoftStopTimeout        float64        `json:"soft_stop_timeout"`

	Fast   bool   `json:"-"`
	Schema string `json:"-"`
}

type periodic struct {
	Args       args    `json:"args"`
	ID         string  `json:"id"`
	Interval   float64 `json:"interval"`
	Kind       string  `json:"kind"`
	Opts       opts    `json:"opts"`
	RunOnStart bool    `json:"run_on_start"`
}

func (s *settings) addQueue(name string, workers int) {
	if s.Queues == nil {
		s.Queues = map[string]int{}
	}
	s.Queues[name] = workers
}

func (p *program) riverConfig() (*river.Config, error) {
	s := &p.settings
	if s.Queues == nil {
		s.Queues = map[string]int{"default": 10, "second": 5}
	}
	workers, err := p.workers(s.Kinds)
	if err != nil {
		return nil, err
	}
	config := &river.Config{
		CompletedJobRetentionPeriod: duration(s.CompletedRetention),
		FetchCooldown:               duration(s.FetchCooldown),
		FetchOnlyKnownKinds:         s.FetchOnlyKnownKinds,
		FetchPollInterval:           duration(s.FetchPollInterval),
		ID:                          s.ID,
		JobTimeout:                  cmp.Or(duration(s.JobTimeout), -1),
		LeaderElectionDisabled:      s.LeaderElectionDisabled,
		Logger:                      logger(),
		Middleware: []rivertype.Middleware{riverlog.NewMiddleware(func(w io.Writer) slog.Handler {
			return slog.NewTextHandler(w, nil)
		}, nil)},
		PollOnly:             s.PollOnly,
		Queues:               map[string]river.QueueConfig{},
		RescueStuckJobsAfter: duration(s.RescueAfter),
		Schema:               s.Schema,
		SkipUnknownJobCheck:  true,
		SoftStopTimeout:      duration(s.SoftStopTimeout),
		Test:                 river.TestConfig{Time: p.clock},
		TestOnly:             true, // maintenance begins at once
		Workers:              workers,
	}
	for name, workers := range s.Queues {
		config.Queues[name] = river.QueueConfig{MaxWorkers: workers}
	}
	for _, job := range s.Periodic {
		config.PeriodicJobs = append(config.PeriodicJobs, job.river())
	}
	if s.RetryIn > 0 {
		config.RetryPolicy = &fixedRetry{after: duration(s.RetryIn)}
	}
	if s.Fast {
		config.FetchCooldown, config.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
		config.Middleware = nil
	}
	return config, nil
}

func (p *periodic) river() *river.PeriodicJob {
	return river.NewPeriodicJob(
		river.PeriodicInterval(duration(p.Interval)),
		func() (river.JobArgs, *river.InsertOpts) {
			a, err := jobArgs(p.Kind, p.Args)
			if err != nil {
				panic(err)
			}
			return a, p.Opts.river(time.Now())
		},
		&river.PeriodicJobOpts{ID: p.ID, RunOnStart: p.RunOnStart},
	)
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

type fixedRetry struct{ after time.Duration }

func (p *fixedRetry) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(p.after) }

// clock is River's idea of the time: the real one, or what a test says it is.
type clock struct {
	mutex sync.Mutex
	now   *time.Time
}

func (c *clock) Now() time.Time {
	if now := c.NowOrNil(); now != nil {
		return *now
	}
	return time.Now()
}

func (c *clock) NowOrNil() *time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *clock) set(text string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch text {
	case "":
		return nil
	case "real":
		c.now = nil
		return nil
	}
	now, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("no such time: %w", err)
	}
	now = now.UTC()
	c.now = &now
	return nil
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
