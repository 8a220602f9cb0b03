package agent

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"orchard/agent/wire"
)

// writeJob writes j as a wire.Job. An ended job's output goes from the spool to w
// piece by piece, so an answer costs the same memory whatever its size.
func writeJob(w io.Writer, j *job, attached bool) error {
	view := j.snapshot()
	ended := view.State == wire.Done || view.State == wire.Failed
	view.Attached = attached
	// The outer fields hide the inner ones, and are left out.
	head, err := json.Marshal(struct {
		wire.Job
		Stdout *wire.Output `json:"stdout,omitempty"`
		Stderr *wire.Output `json:"stderr,omitempty"`
	}{Job: view})
	if err != nil {
		return err
	}
	return buffered(w, func(out *bufio.Writer) error {
		_, _ = out.Write(head[:len(head)-1])
		for _, stream := range []struct {
			name  string
			spool *spool
		}{{"stdout", j.stdout}, {"stderr", j.stderr}} {
			fmt.Fprintf(out, ",%q:", stream.name)
			if !ended {
				fmt.Fprintf(out, `{"bytes":%d}`, stream.spool.printed())
			} else if err := writeOutput(out, stream.spool, j.cap); err != nil {
				return fmt.Errorf("read %s of job %s: %w", stream.name, view.ID, err)
			}
		}
		_, err := out.WriteString("}\n")
		return err
	})
}

// writeOutput writes s as a wire.Output of at most limit bytes and the line between
// head and tail.
func writeOutput(out io.Writer, s *spool, limit int64) error {
	total, head, tail := s.kept()
	truncated := head < total || total > limit
	file := ""
	if truncated {
		file = s.path()
		if head == total { // all is there, only too much for the answer
			tail = total
		}
		head, tail = min(head, limit/2), min(tail, limit-limit/2)
	}
	_, _ = io.WriteString(out, `{"data":"`)
	data := base64.NewEncoder(base64.StdEncoding, out)
	if _, err := copyBlocks(data, io.NewSectionReader(s, 0, head)); err != nil {
		return err
	}
	if truncated {
		fmt.Fprintf(data, "\n[... %d bytes left out%s ...]\n", total-head-tail, where(file))
		if _, err := copyBlocks(data, io.NewSectionReader(s, total-tail, tail)); err != nil {
			return err
		}
	}
	if err := data.Close(); err != nil {
		return err
	}
	rest, err := json.Marshal(wire.Output{Bytes: total, Truncated: truncated, File: file})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `",%s`, rest[1:])
	return err
}

func where(file string) string {
	if file == "" {
		return ""
	}
	return "; the whole is in " + file
}
