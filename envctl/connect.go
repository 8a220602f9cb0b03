package envctl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// ClusterOptions say which cluster to look for the service in; "" is the kubeconfig's own.
type ClusterOptions struct{ Kubeconfig, Context, Namespace string }

// Found is a service that was found in a cluster and is reached through a port of this
// machine until Close.
type Found struct {
	URL, Key string // Key is "" when its Secret may not be read
	Close    func()
}

// connect is a client of the service that flags, environment or kubeconfig name, in this
// order. done gives back what it took to get there.
func (p *Program) connect(ctx context.Context) (c *client.Client, done func(), err error) {
	f := &p.flags
	o := client.Options{URL: f.url, Key: os.Getenv(client.EnvKey)}
	done = func() {}
	switch {
	case f.keyFile != "":
		raw, err := os.ReadFile(f.keyFile)
		if err != nil {
			return nil, nil, exit.Configf("--key-file: %w", err)
		}
		if o.Key = strings.TrimSpace(string(raw)); o.Key == "" {
			return nil, nil, exit.Configf("--key-file: %s is empty", f.keyFile)
		}
	case f.local && f.url != "" && os.Getenv(client.EnvURL) != f.url:
		return nil, nil, exit.Configf("--local and --url exclude each other")
	}
	switch {
	case f.local:
		if p.local == nil {
			if p.local, err = p.startLocal(ctx); err != nil {
				return nil, nil, err
			}
		}
		o.URL, o.Key = p.local.url, p.local.key
	case o.URL != "":
	case p.Cluster != nil && (f.kubeconfig != "" || f.context != "" || haveKubeconfig()):
		found, err := p.Cluster(ctx, ClusterOptions{f.kubeconfig, f.context, f.namespace})
		if err != nil {
			return nil, nil, exit.Configf("look for the service in the cluster: %w", err)
		}
		o.URL, done = found.URL, found.Close
		if o.Key == "" {
			o.Key = found.Key
		}
	default:
		return nil, nil, exit.Configf("no sandbox service is named: give --url or $%s, a kubeconfig, or --local", client.EnvURL)
	}
	c, err = client.New(o)
	if err != nil {
		done()
		return nil, nil, exit.Configf("--url: %w", err)
	}
	return c, done, nil
}

func haveKubeconfig() bool {
	if os.Getenv("KUBECONFIG") != "" {
		return true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(home, ".kube", "config"))
	return err == nil
}

// with connects for the length of do.
func (p *Program) with(ctx context.Context, do func(*client.Client) error) error {
	c, done, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	return do(c)
}

// each does the same to several sandboxes or jobs and joins what went wrong.
func each(ids []string, do func(id string) error) error {
	var errs []error
	for _, id := range ids {
		if err := do(id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// noLocal is what verbs say that make no sense with --local.
func (p *Program) noLocal(verb string) error {
	if p.flags.local {
		return exit.Configf("--local starts with no sandboxes and ends with them: %s has none to work on; see `envctl --local serve`", verb)
	}
	return nil
}
