package wire

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However many requests come, in whatever order of their times, none is accepted twice,
// and what is remembered is bounded.
func TestNoNonceTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1_700_000_000_000)
		v := NewVerifier("uid", nil, func() time.Time { return now })
		accepted := map[string]bool{}
		for range rapid.IntRange(1, 50).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, int(ClockSkew.Milliseconds())).Draw(t, "passes")) * time.Millisecond)
			nonce := rapid.StringMatching("[a-d]").Draw(t, "nonce")
			sent := rapid.SampledFrom([]int64{-130_000, -120_000, -60_000, 0, 60_000, 120_000, 130_000}).Draw(t, "sent")
			// A nonce belongs to one signature, so to one time.
			name := nonce + time.UnixMilli(now.UnixMilli()+sent).String()
			if v.once(now.UnixMilli()+sent, name) != nil {
				continue
			}
			if accepted[name] {
				t.Fatalf("nonce %q was accepted twice", name)
			}
			accepted[name] = true
		}
	})
}

func TestReplayCacheIsBounded(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1_700_000_000_000)
	now := start
	v := NewVerifier("uid", nil, func() time.Time { return now })
	if err := v.once(now.UnixMilli(), "first"); err != nil {
		t.Fatal(err)
	}
	for i := range maxNonces + 10 {
		now = start.Add(time.Duration(1+i/100) * time.Millisecond)
		if err := v.once(now.UnixMilli(), time.Duration(i).String()); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if len(v.seen) != maxNonces || len(v.oldest) != maxNonces {
		t.Errorf("%d nonces are held", len(v.seen))
	}
	if err := v.once(start.UnixMilli(), "first"); err == nil {
		t.Error("a nonce that had to be forgotten was accepted again")
	}
	now = now.Add(2*ClockSkew + time.Second)
	if err := v.once(now.UnixMilli(), "later"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if len(v.seen) != 1 {
		t.Errorf("%d nonces are held long after", len(v.seen))
	}
}
