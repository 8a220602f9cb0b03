package workspace

import (
	"context"
	"fmt"
	"strings"

	"orchard/internal/sandbox"
)

// preCommand runs the task's i-th pre-command in the working tree. Only a command
// that ran and said no is the task's fault; one that was killed or did not end in time
// may have met a slow or small machine.
func (s site) preCommand(ctx context.Context, i int, command string) error {
	res, err := s.sb.Exec(ctx, sandbox.Command{
		Shell: newlines(command), Cwd: s.task.Workdir, Timeout: preCommandTimeout, Merge: true,
	})
	switch {
	case err != nil:
		return fmt.Errorf("sandbox %s, task %s: pre-command %d: %w", s.sb.ID(), s.task.TaskID, i+1, err)
	case res.TimedOut || res.ExitCode < 0 || diskFull(res.Stdout):
		return fmt.Errorf("sandbox %s, task %s: pre-command %d: exit code %d: %s",
			s.sb.ID(), s.task.TaskID, i+1, res.ExitCode, words(res))
	case res.ExitCode != 0:
		return s.invalid("pre-command %d (%s) ended with exit code %d: %s", i+1, tail([]byte(command)), res.ExitCode, words(res))
	}
	return nil
}

// newlines makes real ones of the two characters \n where a shell would read them as
// the letter n: outside of quotes. Some task sets escape their scripts once too often;
// within quotes the two characters are some other program's business.
func newlines(command string) string {
	var b strings.Builder
	var quoted byte
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '\\' && quoted != '\'' && i+1 < len(command):
			i++
			if command[i] == 'n' && quoted == 0 {
				b.WriteByte('\n')
				continue
			}
			b.WriteByte(c)
			c = command[i]
		case quoted == 0 && (c == '\'' || c == '"'):
			quoted = c
		case c == quoted:
			quoted = 0
		}
		b.WriteByte(c)
	}
	return b.String()
}
