package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestCode(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"plain", errors.New("x"), 1},
		{"input", Inputf("row %d", 3), 65},
		{"wrapped mark", fmt.Errorf("read: %w", Gonef("x")), 69},
		{"outermost mark wins", With(Retry, Inputf("x")), 75},
		{"cancelled", fmt.Errorf("stage: %w", context.Canceled), 75},
		{"deadline", context.DeadlineExceeded, 75},
		{"marked cancellation", With(Config, context.Canceled), 78},
		{"joined", errors.Join(errors.New("x"), Configf("y")), 78},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%s: Code = %d, want %d", c.name, got, c.want)
		}
	}
	if With(Retry, nil) != nil {
		t.Error("With(nil) is not nil")
	}
}
