package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"
)

// AgainVariable is set in the environment of processes that Again starts, so that a test binary can run the program.
const AgainVariable = "BLOOMKV_AGAIN"

// Again runs this program in another process, which gets input as JSON, and sets output to the JSON
// that it prints. When ctx ends, the process is interrupted, so that it can remove what it has made.
func Again(ctx context.Context, args []string, input, output any) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := json.Marshal(input)
	if err != nil {
		return err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), AgainVariable+"=1")
	if err := cmd.Run(); err != nil {
		return errors.Join(context.Cause(ctx), err, errors.New(strings.TrimSpace(errs.String())))
	}
	return json.Unmarshal(out.Bytes(), output)
}
