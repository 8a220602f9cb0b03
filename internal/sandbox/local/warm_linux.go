package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"orchard/internal/seal"
	"orchard/internal/warmgo"
)

// Where Go finds its caches in a sandbox, and what it may not do there.
const goCacheInside = home + "/.cache/go-build"

var goEnv = map[string]string{
	"GOCACHE": goCacheInside, "GOMODCACHE": home + "/go/pkg/mod", "GOFLAGS": "-mod=mod",
	"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOENV": "off", "GOTELEMETRY": "off",
}

// The Go cache's own folders in a box.
const goUpper, goWork = "go-upper", "go-work"

// goTool is the machine's Go.
type goTool struct{ root, version string }

// findGo asks the go on PATH where it lives; nil when there is none that works.
func findGo(ctx context.Context) *goTool {
	path, err := exec.LookPath("go")
	if err != nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, path, "env", "GOROOT", "GOVERSION")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		return nil
	}
	return &goTool{root: lines[0], version: lines[1]}
}

// env is what the go command runs with to fill a cache that sandboxes can use: the same
// PATH gives the same C compiler, so the same cache keys.
func (g *goTool) env(cache, scratch string) []string {
	env := []string{"PATH=" + filepath.Join(g.root, "bin") + ":" + SystemPath, "LANG=C.UTF-8"}
	for key, value := range goEnv {
		env = append(env, key+"="+value)
	}
	return append(env, "HOME="+scratch, "GOCACHE="+cache, "GOMODCACHE="+filepath.Join(scratch, "mod"))
}

// warmer builds Go's standard library once per version into a cache that sandboxes share
// as an overlay's lower layer: a first test there takes a second, not a minute.
type warmer struct {
	dir   string
	spawn *spawner

	once sync.Once
	done chan struct{}
	err  error // after done
}

// cache is where the warm cache of g is when it is whole.
func (w *warmer) cache(g *goTool) string {
	return filepath.Join(w.dir, seal.ID(g.root, g.version, SystemPath)[:20])
}

// ready is the warm cache of g, or "" while there is none.
func (w *warmer) ready(g *goTool) string {
	if g == nil || !isDir(w.cache(g)) {
		return ""
	}
	return w.cache(g)
}

// start builds the cache of g in the background, once, as one of wg; ctx ends it.
func (w *warmer) start(ctx context.Context, wg *sync.WaitGroup, g *goTool) {
	if g == nil {
		return
	}
	w.once.Do(func() {
		wg.Go(func() {
			defer close(w.done)
			if w.err = w.build(ctx, g); w.err != nil {
				zerolog.Ctx(ctx).Warn().Err(w.err).Msg("sandboxes start with an empty Go build cache")
			}
		})
	})
}

// wait returns when the cache is built or could not be.
func (w *warmer) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *warmer) build(ctx context.Context, g *goTool) error {
	cache := w.cache(g)
	if isDir(cache) {
		return nil
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	lock, err := waitLock(ctx, cache+".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if isDir(cache) {
		return nil
	}
	tmp := cache + ".tmp" // what is there already was built before somebody was killed: Go checks it
	scratch, err := os.MkdirTemp(w.dir, "scratch-")
	if err != nil {
		return err
	}
	defer removeTree(scratch)
	if err := w.test(ctx, g, tmp, scratch); err != nil {
		return fmt.Errorf("warm Go's build cache: %w", err)
	}
	if err := preserve(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, cache)
}

// test runs a test that imports every public package of the standard library: that
// compiles and vets all of them, as tests do.
func (w *warmer) test(ctx context.Context, g *goTool, cache, scratch string) error {
	list, err := w.run(ctx, g, cache, scratch, "list", "std")
	if err != nil {
		return err
	}
	if err := warmgo.Write(scratch, list); err != nil {
		return err
	}
	if _, err = w.run(ctx, g, cache, scratch, "test", "."); err != nil {
		return err
	}
	// A program needs what a test does not: the linker's own inputs.
	_, err = w.run(ctx, g, cache, scratch, "build", "-o", os.DevNull, "std")
	return err
}

// run is one go command, behind everything else on this machine.
func (w *warmer) run(ctx context.Context, g *goTool, cache, scratch string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(g.root, "bin", "go"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = scratch, g.env(cache, scratch), &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := w.spawn.do(cmd.Start); err != nil {
		return "", err
	}
	unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, 10) // it is only slower without
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, tail(errs.Bytes()))
	}
	return out.String(), nil
}

// preserve dates a cache's entries into the future: Go renews the date of an entry that
// it uses and throws old ones away, and both would copy the cache into every sandbox.
func preserve(cache string) error {
	future := time.Now().AddDate(50, 0, 0)
	return filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, future, future)
	})
}

// seedGoCache makes the upper folder of a warm cache: one that Go has just trimmed.
func seedGoCache(upper string) error {
	return os.WriteFile(filepath.Join(upper, "trim.txt"), []byte(strconv.FormatInt(time.Now().Unix(), 10)), 0o644)
}

// waitLock waits until this process alone holds path.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		f, err := lockNow(path)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// tail is the end of a text that may be long.
func tail(b []byte) string {
	const most = 2000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return strings.TrimSpace(string(b))
}
