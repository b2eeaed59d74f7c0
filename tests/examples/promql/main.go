// Runs PromQL queries over scrapes of one target, with the parser, the storage and the query engine of Prometheus.
//
// Standard input is JSON: scrapes in the text format, 15 s apart, and expressions. Standard output is JSON: the number of series that each
// expression returns at the time of the last scrape.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

const intervalMs = 15_000

type input struct {
	Scrapes     []string `json:"scrapes"`
	Expressions []string `json:"expressions"`
}

func store(ctx context.Context, database *tsdb.DB, text string, atMs int64) error {
	parser, err := textparse.New([]byte(text), "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	appender := database.Appender(ctx)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return appender.Commit()
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		parser.Labels(&own)
		_, _, value := parser.Series()
		scraped := labels.NewBuilder(own).Set("instance", "kafka:9404").Set("job", "ottla").Labels()
		if _, err := appender.Append(0, scraped, atMs, value); err != nil {
			return err
		}
	}
}

func run() error {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "promql")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	database, err := tsdb.Open(directory, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer database.Close()
	ctx := context.Background()
	lastMs := time.Now().UnixMilli()
	for i, text := range given.Scrapes {
		if err := store(ctx, database, text, lastMs-int64(len(given.Scrapes)-1-i)*intervalMs); err != nil {
			return err
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	counts := map[string]int{}
	for _, expression := range given.Expressions {
		query, err := engine.NewInstantQuery(ctx, database, nil, expression, time.UnixMilli(lastMs))
		if err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		vector, err := query.Exec(ctx).Vector()
		if err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		counts[expression] = len(vector)
		query.Close()
	}
	return json.NewEncoder(os.Stdout).Encode(counts)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
