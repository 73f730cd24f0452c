// The worker runs a real River client for riverui's interop tests. It takes commands as JSON lines on stdin and
// answers with JSON lines on stdout: one answer (with the command's ref) for each command, and one line for each event.
// Commands run side by side: who needs an order waits for the answers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
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
)

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
	Result    any     `json:"result,omitempty"`
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
	client   *river.Client[pgx.Tx]
	clock    *clock
	done     atomic.Int64 // noops worked
	journal  *os.File     // what the soak kind did; nil without one
	out      *events
	pool     *pgxpool.Pool
	released released
	scripts  *scripts
	settings settings
}

func main() {
	databaseURL := flag.String("database-url", "", "the database")
	config := flag.String("config", "{}", "the client's settings as JSON")
	queues := flag.String("queues", "", "queues to work and how many jobs each at a time, as in default=10,second=5")
	schema := flag.String("schema", "", "the schema that holds River's tables; empty is the search path")
	offset := flag.Duration("utc-offset", 0, "local time of this process, as a distance from UTC")
	fast := flag.Bool("fast", false, "fetch as eagerly as `river bench` does, and report no events")
	suite := flag.Bool("conformance", false, "speak River's conformance protocol instead")
	flag.Parse()
	time.Local = time.FixedZone("", int(offset.Seconds()))
	serve := func() error { return run(*databaseURL, *config, *queues, *schema, *fast) }
	if *suite {
		serve = func() error { return runConformance(*databaseURL) }
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(databaseURL, config, queues, schema string, fast bool) error {
	ctx := context.Background()
	p := &program{clock: &clock{}, out: &events{encoder: json.NewEncoder(os.Stdout)}}
	if err := json.Unmarshal([]byte(config), &p.settings); err != nil {
		return err
	}
	p.settings.Schema, p.settings.Fast = schema, fast
	p.settings.Quiet = p.settings.Quiet || fast
	for entry := range strings.SplitSeq(queues, ",") {
		if name, slots, _ := strings.Cut(entry, "="); name != "" {
			workers, err := strconv.Atoi(slots)
			if err != nil {
				return err
			}
			p.settings.addQueue(name, workers)
		}
	}
	var err error
	if p.settings.Journal != "" {
		p.journal, err = os.OpenFile(p.settings.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
	}
	if p.pool, err = pgxpool.New(ctx, databaseURL); err != nil {
		return err
	}
	defer p.pool.Close()
	riverConfig, err := p.riverConfig()
	if err != nil {
		return err
	}
	if p.client, err = river.NewClient(riverpgxv5.New(p.pool), riverConfig); err != nil {
		return err
	}
	p.out.send(event{Event: "ready", Message: p.client.ID()})
	if err := p.serve(ctx); err != nil {
		return err
	}
	// End of input: whoever started us is done, or gone.
	return p.client.StopAndCancel(ctx)
}

func (p *program) serve(ctx context.Context) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		go func() {
			answer, err := p.do(ctx, c)
			if err != nil {
				answer.Error = err.Error()
			}
			answer.Event, answer.Ref = "answer", c.Ref
			p.out.send(answer)
		}()
	}
	return lines.Err()
}

// start begins to work jobs, and to tell of them until the client stops.
func (p *program) start(ctx context.Context) error {
	if !p.settings.Quiet { // thousands of events a second would only be dropped
		subscription, _ := p.client.Subscribe(
			river.EventKindJobCancelled, river.EventKindJobCompleted, river.EventKindJobFailed,
			river.EventKindJobInterrupted, river.EventKindJobSnoozed, river.EventKindQueuePaused,
			river.EventKindQueueResumed)
		go p.forward(subscription)
	}
	return p.client.Start(ctx)
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
