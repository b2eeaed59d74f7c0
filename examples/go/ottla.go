// Package ottla starts a broker for tests: one process of "ottla serve" on a free port.
package ottla

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Start runs a broker until the test and its subtests have ended, and returns its bootstrap address.
// The environment variable OTTLA names the command where it is not on the PATH.
func Start(t testing.TB) string {
	t.Helper()
	name := os.Getenv("OTTLA")
	if name == "" {
		name = "ottla"
	}
	command := exec.Command(name, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	bootstrap, err := ready(bufio.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	return bootstrap
}

// ready reads the line that a broker prints once it answers requests.
func ready(output *bufio.Reader) (string, error) {
	line, err := output.ReadBytes('\n')
	if err != nil {
		return "", fmt.Errorf("ottla serve did not start; its log lines say why: %w", err)
	}
	var said struct {
		Bootstrap string `json:"bootstrap"`
	}
	err = json.Unmarshal(line, &said)
	return said.Bootstrap, err
}
