package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"orchard/envctl/client"
)

// A sandbox, a file in it, commands, and the end.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := client.New(client.FromEnv()) // SANDBOX_BASE_URL, SANDBOX_API_KEY
	if err != nil {
		log.Fatal(err)
	}
	box, err := c.Create(ctx, client.Spec{
		Image: "host", CPU: "500m", Memory: "256Mi", Lifetime: 10 * time.Minute,
		Progress: func(i client.Info) { log.Printf("%s is %s: %s", i.ID, i.Status, i.Message) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Delete(context.WithoutCancel(ctx))

	const script = "read -r name; echo hello $name; exit 3"
	if err := box.Put(ctx, "greet.sh", strings.NewReader(script), int64(len(script)), 0o644); err != nil {
		log.Fatal(err)
	}
	// Exec waits; a command that failed is a result.
	r, err := box.Exec(ctx, client.Command{Argv: []string{"sh", "greet.sh"}, Stdin: []byte("orchard\n")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s(exit code %d)\n", r.Stdout, r.ExitCode)

	// A job runs on its own; what it prints comes as it prints it.
	job, err := box.Start(ctx, client.Command{Shell: "for i in 1 2 3; do echo step $i; done"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := job.Follow(ctx, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}

	_, err = c.Sandbox("nobody").Info(ctx)
	var notFound *client.NotFound
	fmt.Println("there is nobody:", errors.As(err, &notFound))
	// Output:
	// hello orchard
	// (exit code 3)
	// step 1
	// step 2
	// step 3
	// there is nobody: true
}
