// Package ottla starts brokers for tests. Each broker or cluster is a process of "ottla serve" with its own temporary directory, which
// ends with the test, and with the test's process even after SIGKILL.
//
// The command is $OTTLA, or "ottla" on the PATH, or "python3 -m ottla". The report of a failed test has the history of its transactions.
package ottla

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout  = 60 * time.Second
	changeTimeout = 30 * time.Second
	answerTimeout = 90 * time.Second
	reportLines   = 40
	// Always, as the value of Fault.Times, means no limit.
	Always = -1
)

// Fault has the fields of docs/faults.md. Unset fields match any request. More has further fields.
type Fault struct {
	API             string         `json:"api,omitempty"`
	ClientID        string         `json:"client_id,omitempty"`
	Topic           string         `json:"topic,omitempty"`
	Partition       *int           `json:"partition,omitempty"`
	Group           string         `json:"group,omitempty"`
	TransactionalID string         `json:"transactional_id,omitempty"`
	Fields          map[string]any `json:"fields,omitempty"`
	Nth             int            `json:"nth,omitempty"`
	Times           int            `json:"times,omitempty"` // once if 0, except for Hold
	Error           string         `json:"error,omitempty"`
	Cut             string         `json:"cut,omitempty"` // "before" or "after" the request takes effect
	DropRequest     bool           `json:"drop_request,omitempty"`
	DropAnswer      bool           `json:"drop_answer,omitempty"`
	Hold            string         `json:"hold,omitempty"`
	Kill            string         `json:"kill,omitempty"`
	DelayMS         float64        `json:"delay_ms,omitempty"`
	DelayAnswerMS   float64        `json:"delay_answer_ms,omitempty"`
	More            map[string]any `json:"-"`
}

// Faults adds and removes the faults of one broker.
type Faults struct{ control *control }

// Add adds a fault.
func (f Faults) Add(fault Fault) *AddedFault {
	f.control.t.Helper()
	fields := map[string]any{}
	text, err := json.Marshal(fault)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		f.control.t.Fatal(err)
	}
	if fault.Times == Always {
		fields["times"] = nil
	}
	for name, value := range fault.More {
		fields[name] = value
	}
	var added []struct{ ID int }
	f.control.ask("POST", "/v1/faults", fields, &added)
	return &AddedFault{f.control, fmt.Sprintf("/v1/faults/%d", added[0].ID)}
}

// Error answers the requests that match with an error, such as "NOT_LEADER_OR_FOLLOWER", without effect.
func (f Faults) Error(code string, which Fault) *AddedFault {
	f.control.t.Helper()
	which.Error = code
	return f.Add(which)
}

// Cut closes the connection "before" or "after" the requests that match take effect.
func (f Faults) Cut(when string, which Fault) *AddedFault {
	f.control.t.Helper()
	which.Cut = when
	return f.Add(which)
}

// Delay delays the requests that match.
func (f Faults) Delay(by time.Duration, which Fault) *AddedFault {
	f.control.t.Helper()
	which.DelayMS = float64(by) / float64(time.Millisecond)
	return f.Add(which)
}

// Clear removes all faults, and releases everything that they hold.
func (f Faults) Clear() {
	f.control.t.Helper()
	f.control.ask("DELETE", "/v1/faults", nil, nil)
}

// AddedFault is a fault that was added to a broker.
type AddedFault struct {
	control *control
	path    string
}

// Hits returns how often the fault was triggered.
func (f *AddedFault) Hits() int {
	f.control.t.Helper()
	var view struct{ Hits int }
	f.control.ask("GET", f.path, nil, &view)
	return view.Hits
}

// Wait waits until the fault has this number of hits; otherwise the test fails after 10 s.
func (f *AddedFault) Wait(hits int) {
	f.control.t.Helper()
	var seen struct{ Hits int }
	f.control.ask("POST", f.path+"/wait", map[string]any{"hits": hits, "timeout_ms": 10_000}, &seen)
	if seen.Hits < hits {
		f.control.t.Fatalf("the fault was triggered %d times in 10 s, not %d times", seen.Hits, hits)
	}
}

// Remove removes the fault, and releases everything that it holds.
func (f *AddedFault) Remove() {
	f.control.t.Helper()
	f.control.ask("DELETE", f.path, nil, nil)
}

// Clock is the clock of a broker. It can be advanced if the broker was started with "--clock", "manual".
type Clock struct{ control *control }

// Now returns the broker's time.
func (c Clock) Now() time.Time {
	c.control.t.Helper()
	var shown struct {
		NowMS int64 `json:"now_ms"`
	}
	c.control.ask("GET", "/v1/clock", nil, &shown)
	return time.UnixMilli(shown.NowMS)
}

// Advance advances the clock, and returns after all timers that expire in that time have run.
func (c Clock) Advance(by time.Duration) {
	c.control.t.Helper()
	c.control.ask("POST", "/v1/clock/advance", map[string]any{"by_ms": by.Milliseconds()}, nil)
}

// Broker is a single broker.
type Broker struct {
	*served
	Faults  Faults
	Clock   Clock
	control *control
}

// Start runs a broker until the test and its subtests have ended. The arguments are options of "ottla serve", such as "--clock",
// "manual" or "--set", "num.partitions=3".
func Start(t testing.TB, arguments ...string) *Broker {
	t.Helper()
	return brokerOf(t, serve(t, arguments))
}

// ForTest resets the broker for a subtest, and returns a handle whose errors and report belong to that subtest.
func (b *Broker) ForTest(t testing.TB) *Broker {
	t.Helper()
	b.Reset()
	return brokerOf(t, b.served)
}

func brokerOf(t testing.TB, of *served) *Broker {
	t.Helper()
	api := of.ready.Control
	api.t = t
	broker := &Broker{of, Faults{&api}, Clock{&api}, &api}
	since := broker.Clock.Now()
	t.Cleanup(func() { of.report(t, since, []control{api}) })
	return broker
}

// Reset removes all topics, groups, transactions, configs and faults. Connections are closed; the address stays the same.
func (b *Broker) Reset() { b.control.t.Helper(); b.control.ask("POST", "/v1/reset", nil, nil) }

// Pause lets the broker answer nothing until Resume; connections stay open.
func (b *Broker) Pause() { b.control.t.Helper(); b.control.ask("POST", "/v1/pause", nil, nil) }

// Resume ends a pause.
func (b *Broker) Resume() { b.control.t.Helper(); b.control.ask("POST", "/v1/resume", nil, nil) }

// Command runs a command of ottla with the broker's address, such as Command("topic", "list"), and returns its output.
func (b *Broker) Command(arguments ...string) string {
	b.control.t.Helper()
	return b.command(b.control.t, arguments)
}

// Cluster is a cluster of brokers with the ids 1, 2, 3 and so on.
type Cluster struct {
	*served
	t testing.TB
}

// StartCluster runs a cluster until the test and its subtests have ended. The arguments are options of "ottla serve". A cluster cannot
// be reset.
func StartCluster(t testing.TB, brokers int, arguments ...string) *Cluster {
	t.Helper()
	since := time.Now()
	served := serve(t, append([]string{"--brokers", fmt.Sprint(brokers), "--takes-commands"}, arguments...))
	cluster := &Cluster{served, t}
	t.Cleanup(func() {
		var apis []control
		for broker := range brokers {
			if node, isRunning := served.node(broker + 1); isRunning {
				apis = append(apis, node.Control)
			}
		}
		served.report(t, since, apis)
	})
	return cluster
}

func (c *Cluster) api(broker int) *control {
	c.t.Helper()
	node, isRunning := c.node(broker)
	if !isRunning {
		c.t.Fatalf("broker %d is not running; restart it first", broker)
	}
	node.Control.t = c.t
	return &node.Control
}

// Faults returns the faults of one broker, which end with its process.
func (c *Cluster) Faults(broker int) Faults { c.t.Helper(); return Faults{c.api(broker)} }

// Pause lets a broker answer nothing until Resume; connections stay open.
func (c *Cluster) Pause(broker int) { c.t.Helper(); c.api(broker).ask("POST", "/v1/pause", nil, nil) }

// Resume ends the pause of a broker.
func (c *Cluster) Resume(broker int) { c.t.Helper(); c.api(broker).ask("POST", "/v1/resume", nil, nil) }

// Kill crashes a broker with SIGKILL.
func (c *Cluster) Kill(broker int) { c.t.Helper(); c.end(broker, syscall.SIGKILL) }

// ShutDown shuts a broker down with SIGTERM; it first moves its leaderships to other brokers.
func (c *Cluster) ShutDown(broker int) { c.t.Helper(); c.end(broker, syscall.SIGTERM) }

func (c *Cluster) end(broker int, by syscall.Signal) {
	c.t.Helper()
	c.api(broker)
	node, _ := c.node(broker)
	_ = syscall.Kill(node.PID, by)
	c.await("the end of a broker", func() bool { _, isRunning := c.node(broker); return !isRunning })
}

// Restart starts a broker again that was killed or shut down, or shuts it down first, and waits until it listens.
func (c *Cluster) Restart(broker int) {
	c.t.Helper()
	if _, isRunning := c.node(broker); isRunning {
		c.ShutDown(broker)
	}
	_, _ = fmt.Fprintln(c.commands, broker)
	c.await("the start of a broker", func() bool { _, isRunning := c.node(broker); return isRunning })
}

// Leader returns the id of a partition's leader; -1 without a leader.
func (c *Cluster) Leader(topic string, partition int) int {
	c.t.Helper()
	var described struct {
		Partitions []struct{ Partition, Leader int }
	}
	if err := json.Unmarshal([]byte(c.Command("topic", "describe", topic, "--json")), &described); err != nil {
		c.t.Fatal(err)
	}
	for _, one := range described.Partitions {
		if one.Partition == partition {
			return one.Leader
		}
	}
	c.t.Fatalf("topic %s has no partition %d", topic, partition)
	return -1
}

// MoveLeader makes an in-sync replica the leader of a partition, and waits for the change.
func (c *Cluster) MoveLeader(topic string, partition, to int) {
	c.t.Helper()
	c.Command("topic", "elect", fmt.Sprintf("%s:%d", topic, partition), "--to", fmt.Sprint(to))
	c.await("the move of a leader", func() bool { return c.Leader(topic, partition) == to })
}

// Command runs a command of ottla with the cluster's address, and returns its output.
func (c *Cluster) Command(arguments ...string) string {
	c.t.Helper()
	return c.command(c.t, arguments)
}

func (c *Cluster) await(what string, condition func() bool) {
	c.t.Helper()
	for end := time.Now().Add(changeTimeout); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s took more than %s:\n%s", what, changeTimeout, c.lastLines())
		}
	}
}

// control is the control API of one broker (docs/control.md).
type control struct {
	URL, Token string
	t          testing.TB
}

func (c *control) ask(method, path string, body, answer any) {
	c.t.Helper()
	if err := c.send(method, path, body, answer); err != nil {
		c.t.Fatal(err)
	}
}

func (c *control) send(method, path string, body, answer any) error {
	if body == nil {
		body = struct{}{}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, c.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := (&http.Client{Timeout: answerTimeout}).Do(request)
	if err != nil {
		return fmt.Errorf("the control API does not answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var refused struct{ Error string }
		_ = json.NewDecoder(response.Body).Decode(&refused)
		return errors.New(refused.Error)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// served is a process of "ottla serve".
type served struct {
	Bootstrap string // the addresses for clients, separated by commas
	ready     event
	commands  io.Writer
	log       string
	mutex     sync.Mutex
	nodes     map[int]event // the running nodes of a cluster
	hasReady  chan struct{}
	ended     chan struct{}
}

// event is a line that "ottla serve" prints.
type event struct {
	Event, Bootstrap string
	Node, PID        int
	Control          control
}

func serve(t testing.TB, arguments []string) *served {
	t.Helper()
	program, err := find()
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "ottla-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	program = append(program, "serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(directory, "data"), "--control-port", "0",
		"--owner-pid", fmt.Sprint(os.Getpid()), "--owned-directory", directory)
	log, err := os.Create(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := &served{log: log.Name(), nodes: map[int]event{}, hasReady: make(chan struct{}), ended: make(chan struct{})}
	process := exec.Command(program[0], append(program[1:], arguments...)...)
	process.Env, process.Stderr = environment(), log
	output, _ := process.StdoutPipe()
	s.commands, _ = process.StdinPipe()
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read(bufio.NewReader(output))
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(changeTimeout, func() { _ = process.Process.Kill() })
		<-s.ended
		_ = process.Wait()
		late.Stop()
	})
	select {
	case <-s.hasReady:
	case <-s.ended:
		t.Fatalf("ottla serve did not start:\n%s", s.lastLines())
	case <-time.After(startTimeout):
		t.Fatalf("ottla serve was not ready within %s:\n%s", startTimeout, s.lastLines())
	}
	return s
}

func (s *served) read(output *bufio.Reader) {
	defer close(s.ended)
	for {
		line, err := output.ReadBytes('\n')
		if err != nil {
			return
		}
		var said event
		if json.Unmarshal(line, &said) != nil {
			continue
		}
		s.mutex.Lock()
		switch said.Event {
		case "started":
			s.nodes[said.Node] = said
		case "ended":
			delete(s.nodes, said.Node)
		case "ready":
			s.ready, s.Bootstrap = said, said.Bootstrap
			close(s.hasReady)
		}
		s.mutex.Unlock()
	}
}

// node returns the event "started" of a running node.
func (s *served) node(id int) (event, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	node, isRunning := s.nodes[id]
	return node, isRunning
}

// lastLines returns the end of the log.
func (s *served) lastLines() string {
	text, _ := os.ReadFile(s.log)
	return strings.TrimSpace(string(text[max(0, len(text)-4_000):]))
}

// report logs the history of the transactions since a time, if the test has failed.
func (s *served) report(t testing.TB, since time.Time, apis []control) {
	if !t.Failed() {
		return
	}
	var lines []string
	for _, api := range apis {
		var known struct {
			Transactions []struct {
				ID     string `json:"transactional_id"`
				Newest int64  `json:"newest_ms"`
			}
		}
		if err := api.send("GET", "/v1/transactions", nil, &known); err != nil {
			lines = append(lines, "the history of transactions is not available: "+err.Error())
		}
		for _, one := range known.Transactions {
			if one.Newest >= since.UnixMilli() && len(lines) < reportLines {
				text, err := run(s.Bootstrap, "txn", "timeline", one.ID, "--url", api.URL, "--token", api.Token, "--max", "30")
				if err != nil {
					text = err.Error()
				}
				lines = append(append(lines, one.ID+":"), strings.Split(strings.TrimSpace(text), "\n")...)
			}
		}
	}
	if len(lines) > 0 {
		t.Logf("transactions on the broker:\n%s", strings.Join(lines[:min(len(lines), reportLines-1)], "\n"))
	}
}

// find returns the command of ottla.
func find() ([]string, error) {
	if path := os.Getenv("OTTLA"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return nil, fmt.Errorf("OTTLA is %q, which cannot be run: %w", path, err)
		}
		return []string{path}, nil
	}
	if _, err := exec.LookPath("ottla"); err == nil {
		return []string{"ottla"}, nil
	}
	for _, python := range []string{"python3", "python"} {
		if exec.Command(python, "-P", "-m", "ottla", "--version").Run() == nil {
			return []string{python, "-P", "-m", "ottla"}, nil
		}
	}
	return nil, errors.New("ottla was not found; install it for python3, put it on the PATH, or set OTTLA to its path")
}

// environment returns the variables without those that configure another broker.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "KAFKA_") || strings.HasPrefix(variable, "OTTLA_")
	})
}

// run runs a command of ottla, and returns its output.
func run(bootstrap string, arguments ...string) (string, error) {
	program, err := find()
	if err != nil {
		return "", err
	}
	command := exec.Command(program[0], append(append(program[1:], arguments...), "--bootstrap", bootstrap)...)
	command.Env = environment()
	output, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return string(output), err
}

func (s *served) command(t testing.TB, arguments []string) string {
	t.Helper()
	output, err := run(s.Bootstrap, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}
