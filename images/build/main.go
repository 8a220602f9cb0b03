// Command build makes the images of Orchard as archives, or pushes them; images/build.sh runs it
// from the top folder.
//
//	build [flags] NAME...      of stage, controller, agent and toolchain
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	version := flags.String("version", "dev", "version and tag of the images")
	revision := flags.String("revision", "", "commit that they are made of, for the labels and --version")
	dist := flags.String("dist", "dist", "folder of what is made")
	registry := flags.String("push", "", "push to this REGISTRY/PREFIX instead of making archives")
	platforms := flags.String("platforms", host().String(), "with -push: platforms, separated by commas; several are pushed as one index")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := newBuilder(*dist, *version, *revision)
	if err != nil {
		return err
	}
	names := slices.Compact(slices.Sorted(slices.Values(flags.Args())))
	if *registry == "" {
		return b.archive(ctx, stdout, names)
	}
	all, err := parsePlatforms(*platforms)
	if err != nil {
		return err
	}
	return b.push(ctx, stdout, *registry, all, names)
}
