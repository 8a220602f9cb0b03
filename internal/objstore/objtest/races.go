package objtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"orchard/internal/objstore"
)

func testRacingCreators(t *testing.T, s objstore.Store) {
	for round := range 10 {
		key := fmt.Sprintf("race/%d", round)
		content := func(i int) string { return strings.Repeat(fmt.Sprint(i), 1<<16) }
		errs := race(8, func(i int) error {
			_, err := s.Create(t.Context(), key, objstore.Bytes(content(i)))
			return err
		})
		winner := oneWinner(t, errs)
		if winner >= 0 && read(t, s, key) != content(winner) {
			t.Errorf("the content is not that of the winner")
		}
	}
}

func testRacingSwappers(t *testing.T, s objstore.Store) {
	info := create(t, s, "refs/r", "start")
	for round := range 10 {
		content := func(i int) string { return fmt.Sprint(round, " ", i) } // never what is there
		infos := make([]objstore.Info, 8)
		errs := race(len(infos), func(i int) (err error) {
			infos[i], err = s.Swap(t.Context(), "refs/r", objstore.Bytes(content(i)), info.ETag)
			return err
		})
		winner := oneWinner(t, errs)
		if winner < 0 {
			return
		}
		info = infos[winner]
		if got := read(t, s, "refs/r"); got != content(winner) {
			t.Errorf("content %q, want %q", got, content(winner))
		}
	}
}

// race runs n calls that start together.
func race(n int, call func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// oneWinner is the index of the one call without an error; all others must have lost.
func oneWinner(t *testing.T, errs []error) int {
	t.Helper()
	winner := -1
	for i, err := range errs {
		if err == nil && winner < 0 {
			winner = i
		} else if err == nil {
			t.Errorf("%d and %d both won", winner, i)
		} else {
			wantErr(t, "a loser", err, objstore.ErrExists)
		}
	}
	if winner < 0 {
		t.Errorf("nobody won: %v", errs)
	}
	return winner
}
