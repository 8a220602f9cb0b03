package command

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/sandbox/kube"
	"orchard/internal/sandbox/kube/argocheck"
)

// checkWorkflowCommand tries whether Argo runs stages. It needs no controller.
func checkWorkflowCommand(o *options, stderr io.Writer) *cli.Command {
	w := argocheck.Options{Wait: time.Minute}
	return &cli.Command{
		Name:  "check-workflow",
		Usage: "see that Argo Workflows runs stages, by running one short step",
		Description: `Submits a Workflow with the accounts that stages have, waits for its end, deletes it, and
says what is missing: Argo itself, a right of its executor, an account, a Secret, an image,
room. Of the flags before the word check-workflow, --kubeconfig and --log-level are used.

EXIT STATUS
   0   all is well
   69  the cluster does not answer
   78  something is missing: the message says what`,
		Flags: []cli.Flag{
			text("workflow-namespace", "ORCHARD_WORKFLOW_NAMESPACE", "`NAMESPACE` of the pipelines", &w.Namespace),
			text("stage-image", "ORCHARD_STAGE_IMAGE", "`IMAGE` of the stages", &w.Image),
			seconds("wait", "ORCHARD_WORKFLOW_WAIT_SECONDS", "give the Workflow `TIME`", &w.Wait),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Configf("unexpected argument %q", c.Args().First())
			}
			if err := w.Validate(); err != nil {
				return err
			}
			client, err := kube.Client(o.kube)
			if err != nil {
				return err
			}
			ctx, err := o.logged(c.Context, stderr)
			if err != nil {
				return err
			}
			said, err := argocheck.Try(ctx, client, w)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "ok: %s\n", said)
			return err
		},
	}
}
