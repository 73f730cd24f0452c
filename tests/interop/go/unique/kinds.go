package main

import (
	"encoding/json"
	"time"

	"github.com/riverqueue/river"
)

// kinds are the structs whose Python counterparts are in tests/interop/test_unique.py. Args of any other kind are kept
// as they come.
var kinds = map[string]func() river.JobArgs{
	"embedded":  func() river.JobArgs { return &embeddedArgs{} },
	"literal":   func() river.JobArgs { return &literalArgs{} },
	"nested":    func() river.JobArgs { return &nestedArgs{} },
	"recursive": func() river.JobArgs { return &recursiveArgs{} },
	"subset":    func() river.JobArgs { return &subsetArgs{} },
	"values":    func() river.JobArgs { return &valuesArgs{} },
	"whole":     func() river.JobArgs { return &wholeArgs{} },
}

// rawArgs are args of a struct that writes its JSON itself.
type rawArgs struct {
	kind string
	raw  json.RawMessage
}

func (a rawArgs) Kind() string                 { return a.kind }
func (a rawArgs) MarshalJSON() ([]byte, error) { return a.raw, nil }

type subsetArgs struct {
	Recipient string  `json:"recipient" river:"unique"`
	Body      string  `json:"body"`
	Count     int     `json:"count,omitempty" river:"unique"`
	Upper     *string `json:"Upper" river:"unique"`
}

func (subsetArgs) Kind() string { return "subset" }

type customer struct {
	ID   int64  `json:"id" river:"unique"`
	Name string `json:"name"`
}

type account struct {
	Region   string    `json:"region" river:"unique"`
	Customer *customer `json:"customer"`
}

type nestedArgs struct {
	Trace    string    `json:"trace"`
	Account  account   `json:"account"`
	Customer *customer `json:"customer" river:"unique"` // a second look into the same type
	At       time.Time `json:"at" river:"unique"`
}

func (nestedArgs) Kind() string { return "nested" }

type embeddedArgs struct {
	Base

	ID int `json:"id" river:"unique"`
}

// Base is exported: River does not look into an embedded struct that is not.
type Base struct {
	Shard int    `json:"shard" river:"unique"`
	Label string `json:"label"`
}

func (embeddedArgs) Kind() string { return "embedded" }

type address struct {
	Street string   `json:"street"`
	Lines  []string `json:"lines"`
}

type wholeArgs struct {
	Address address        `json:"address" river:"unique"`
	Tags    map[string]int `json:"tags" river:"unique"`
	Other   string         `json:"other"`
}

func (wholeArgs) Kind() string { return "whole" }

type inner struct {
	Value string `json:"inner@key" river:"unique"`
}

type literalArgs struct {
	Ampersand string `json:"a&b" river:"unique"`
	Bang      string `json:"!bang" river:"unique"`
	Colon     string `json:":x" river:"unique"`
	Dollar    string `json:"$x" river:"unique"`
	Literal   string `json:"outer.key.inner@key" river:"unique"`
	Nested    inner  `json:"outer.key"`
	Unicode   string `json:"é" river:"unique"`
	X         string `json:"x" river:"unique"`
}

func (literalArgs) Kind() string { return "literal" }

type node struct {
	Hidden string `json:"hidden"`
	Name   string `json:"name" river:"unique"`
	Next   *node  `json:"next" river:"unique"`
}

type recursiveArgs struct {
	Root node `json:"root" river:"unique"`
}

func (recursiveArgs) Kind() string { return "recursive" }

type valuesArgs struct {
	Text     string             `json:"text"`
	Whole    int64              `json:"whole"`
	Number   float64            `json:"number"`
	Flag     bool               `json:"flag"`
	Maybe    *string            `json:"maybe"`
	List     []float64          `json:"list"`
	Map      map[string]float64 `json:"map"`
	Bytes    []byte             `json:"bytes"`
	At       time.Time          `json:"at"`
	Duration time.Duration      `json:"duration"`
	Omitted  string             `json:"omitted,omitempty"`
	Structs  []address          `json:"structs"`
}

func (valuesArgs) Kind() string { return "values" }
