// Command viewers asks a dashboard for what the live pages of many browsers ask for: each on a connection of its own that
// it keeps, again and again at the same interval, at a phase of its own, with the ETag that it was given last.
//
// It reads a Plan from standard input and writes a Report to standard output. It is in Go because it shares its
// processors with what it measures.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/textproto"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Plan says what to ask for. Viewer number n takes request n modulo their number.
type Plan struct {
	Address  string    `json:"address"`
	Requests []Request `json:"requests"`
	Viewers  int       `json:"viewers"`
	Interval float64   `json:"interval"` // seconds between two requests of a viewer
	Warm     float64   `json:"warm"`     // seconds before answers count
	Seconds  float64   `json:"seconds"`  // seconds in which they count
}

// Request is one address with the headers of a live region.
type Request struct {
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
}

// Report says what came back.
type Report struct {
	Milliseconds []float64      `json:"milliseconds"` // of the answers that count, in order of their length
	Statuses     map[string]int `json:"statuses"`
	Errors       map[string]int `json:"errors"` // of connections
	Bytes        int64          `json:"bytes"`
	Connected    int            `json:"connected"`
}

// look is what one viewer met.
type look struct {
	milliseconds []float64
	statuses     map[int]int
	errors       map[string]int
	bytes        int64
	connected    bool
}

const answerTimeout = 60 * time.Second

func main() {
	var plan Plan
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	began := time.Now()
	from := began.Add(seconds(plan.Warm))
	until := from.Add(seconds(plan.Seconds))
	looks := make([]look, plan.Viewers)
	var all sync.WaitGroup
	// The program that started this one reads the server's figures between these two lines.
	all.Add(1)
	go func() {
		defer all.Done()
		time.Sleep(time.Until(from))
		fmt.Println(`{"counting": true}`)
		time.Sleep(time.Until(until))
		fmt.Println(`{"counting": false}`)
	}()
	for number := range looks {
		all.Add(1)
		go func() {
			defer all.Done()
			// Phases are spread over the interval, in no order of the addresses.
			time.Sleep(seconds(rand.Float64() * plan.Interval))
			view(plan, number, from, until, &looks[number])
		}()
	}
	all.Wait()
	report := Report{Statuses: map[string]int{}, Errors: map[string]int{}}
	for _, one := range looks {
		report.Milliseconds = append(report.Milliseconds, one.milliseconds...)
		for status, times := range one.statuses {
			report.Statuses[strconv.Itoa(status)] += times
		}
		for words, times := range one.errors {
			report.Errors[words] += times
		}
		report.Bytes += one.bytes
		if one.connected {
			report.Connected++
		}
	}
	sort.Float64s(report.Milliseconds)
	json.NewEncoder(os.Stdout).Encode(report)
}

// view asks until the end; a connection that was closed is opened again at the next turn, as browsers do.
func view(plan Plan, number int, from, until time.Time, found *look) {
	found.statuses, found.errors = map[int]int{}, map[string]int{}
	request := plan.Requests[number%len(plan.Requests)]
	var head strings.Builder
	fmt.Fprintf(&head, "GET %s HTTP/1.1\r\nHost: %s\r\n", request.Path, plan.Address)
	for name, value := range request.Headers {
		fmt.Fprintf(&head, "%s: %s\r\n", name, value)
	}
	interval := seconds(plan.Interval)
	var connection net.Conn
	var reader *bufio.Reader
	etag := ""
	for turn := time.Now(); turn.Before(until); turn = turn.Add(interval) {
		if late := time.Since(turn); late > 0 {
			// A page that still waits for an answer leaves out its turns.
			turn = turn.Add((late + interval - 1) / interval * interval)
			if !turn.Before(until) {
				break
			}
		}
		time.Sleep(time.Until(turn))
		asked := time.Now()
		status, after, err := 0, 0, error(nil)
		if connection == nil {
			connection, err = net.DialTimeout("tcp", plan.Address, answerTimeout)
			if err == nil {
				reader = bufio.NewReaderSize(connection, 4096)
			}
		}
		if err == nil {
			text := head.String()
			if etag != "" {
				text += "If-None-Match: " + etag + "\r\n"
			}
			connection.SetDeadline(asked.Add(answerTimeout))
			_, err = io.WriteString(connection, text+"\r\n")
		}
		closes := false
		if err == nil {
			var size int64
			status, etag, after, closes, size, err = answer(reader, etag)
			if asked.After(from) {
				found.bytes += size
			}
		}
		if err != nil || closes {
			if connection != nil {
				connection.Close()
			}
			connection, reader = nil, nil
		} else {
			found.connected = true
		}
		if err == nil && after > 0 {
			// As the page does after a Retry-After.
			turn = turn.Add(time.Duration(after)*time.Second - interval)
		}
		if !asked.After(from) {
			continue
		}
		if err != nil {
			found.errors[kind(err)]++
			continue
		}
		found.statuses[status]++
		if status < 400 {
			found.milliseconds = append(found.milliseconds, float64(time.Since(asked).Microseconds())/1000)
		}
	}
	if connection != nil {
		connection.Close()
	}
}

// answer reads one answer; returns its status, ETag, Retry-After, whether the connection ends with it, and its size.
func answer(reader *bufio.Reader, known string) (status int, etag string, after int, closes bool, size int64, err error) {
	lines := textproto.NewReader(reader)
	first, err := lines.ReadLine()
	if err != nil {
		return
	}
	if len(first) < 12 {
		return 0, "", 0, false, 0, fmt.Errorf("no status line")
	}
	status, _ = strconv.Atoi(first[9:12])
	length := int64(0)
	size = int64(len(first))
	for {
		var line string
		if line, err = lines.ReadLine(); err != nil {
			return
		}
		size += int64(len(line)) + 2
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			length, _ = strconv.ParseInt(value, 10, 64)
		case "etag":
			etag = value
		case "retry-after":
			after, _ = strconv.Atoi(value)
		case "connection":
			closes = strings.EqualFold(value, "close")
		case "transfer-encoding":
			return 0, "", 0, false, 0, fmt.Errorf("an answer in chunks")
		}
	}
	if status == 304 {
		return status, known, after, closes, size, nil
	}
	read, err := reader.Discard(int(length))
	return status, etag, after, closes, size + int64(read), err
}

func kind(err error) string {
	words := err.Error()
	for _, known := range []string{"refused", "reset", "EOF", "timeout", "broken pipe", "too many open files"} {
		if strings.Contains(words, known) {
			return known
		}
	}
	return words
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
