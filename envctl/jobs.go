package envctl

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
)

func (p *Program) jobs() *cli.Command {
	return &cli.Command{
		Name: "jobs", Usage: "the commands that a sandbox can still tell about", ArgsUsage: "ID",
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, 1)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				all, err := sdk.Sandbox(args[0]).Jobs(c.Context)
				if err != nil {
					return err
				}
				list, rows := make([]any, len(all)), make([][]string, len(all))
				for i, j := range all {
					code := ""
					if j.ExitCode != nil {
						code = fmt.Sprint(*j.ExitCode)
					}
					list[i], rows[i] = jsonJob(j), []string{j.ID, string(j.Status), code, j.Reason, age(j.Created, time.Now()), brief(j.Command)}
				}
				return p.print(list, func(w io.Writer) { table(w, "JOB STATUS CODE REASON AGE COMMAND", rows) })
			})
		},
	}
}

// brief is as much of a command as a table has room for.
func brief(command string) string {
	if runes := []rune(command); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return command
}

func (p *Program) kill() *cli.Command {
	return &cli.Command{
		Name: "kill", Usage: "end jobs and everything that they started", ArgsUsage: "JOB...",
		Flags: []cli.Flag{&cli.StringFlag{Name: "signal", Aliases: []string{"s"}, Usage: "instead, send `NAME` (INT, TERM, HUP, USR1 …) to the job's process group"}},
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, -1)
			if err != nil {
				return err
			}
			signal := strings.TrimPrefix(strings.ToUpper(c.String("signal")), "SIG")
			return p.with(c.Context, func(sdk *client.Client) error {
				var done []string
				err := each(args, func(id string) error {
					job, err := sdk.Job(id), error(nil)
					if signal == "" {
						err = job.Kill(c.Context)
					} else {
						err = job.Signal(c.Context, signal)
					}
					if err == nil {
						done = append(done, id)
					}
					return err
				})
				return errors.Join(err, p.print(listed(done), func(w io.Writer) {
					for _, id := range done {
						fmt.Fprintln(w, id)
					}
				}))
			})
		},
	}
}

func (p *Program) logs() *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "what a job has printed", ArgsUsage: "JOB",
		Description: "With -f it goes on until the job has ended, and ends with the job's exit code.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the job has ended"},
		},
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, 1)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				job := sdk.Job(args[0])
				if c.Bool("follow") {
					if p.json() {
						return p.attendJSON(c.Context, job)
					}
					r, err := job.Follow(c.Context, p.Out, p.Err)
					if err != nil {
						return err
					}
					return p.outcome(r)
				}
				info, err := job.Info(c.Context)
				if err != nil {
					return err
				}
				if p.json() {
					return p.print(jsonJob(info), nil)
				}
				for stream, to := range map[string]io.Writer{"stdout": p.Out, "stderr": p.Err} {
					r, _, err := job.Output(c.Context, stream, 0)
					if err != nil {
						return err
					}
					_, err = io.Copy(to, r)
					if err = errors.Join(err, r.Close()); err != nil {
						return fmt.Errorf("logs of job %s: %w", job.ID(), err)
					}
				}
				return nil
			})
		},
	}
}

// jsonJob is a job for programs.
func jsonJob(i client.JobInfo) any {
	at := func(t time.Time) client.Time { return client.Time{Time: t} }
	return struct {
		JobID     string      `json:"job_id"`
		SandboxID string      `json:"sandbox_id"`
		Command   string      `json:"command"`
		Status    string      `json:"status"`
		ExitCode  *int        `json:"exit_code"`
		Reason    string      `json:"reason,omitempty"`
		Error     string      `json:"error,omitempty"`
		Stdout    string      `json:"stdout"`
		Stderr    string      `json:"stderr"`
		Created   client.Time `json:"created_at"`
		Started   client.Time `json:"started_at"`
		Completed client.Time `json:"completed_at"`
	}{i.ID, i.SandboxID, i.Command, string(i.Status), i.ExitCode, i.Reason, i.Error, string(i.Stdout), string(i.Stderr),
		at(i.Created), at(i.Started), at(i.Completed)}
}
