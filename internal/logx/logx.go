// Package logx makes the one logger of a program: JSON to stderr, or readable
// lines when stderr is a terminal. Libraries take theirs from the context with
// zerolog.Ctx, which is silent when there is none. stdout is for data only.
package logx

import (
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// Field names shared by every log line; no other spelling of the same thing.
const (
	Stage   = "stage"
	Run     = "run"
	Shard   = "shard"
	Task    = "task"
	Unit    = "unit"
	Sandbox = "sandbox"
	DurMS   = "dur_ms"
)

// New is a logger that writes to w at level ("debug", "info", "warn", "error");
// an unknown level is an error that names it.
func New(w io.Writer, level string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("%q is none of debug, info, warn, error", level)
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05"}
	}
	return zerolog.New(w).Level(l).With().Timestamp().Logger(), nil
}
