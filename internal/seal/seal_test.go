package seal

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonicalSortsAndKeepsNumbers(t *testing.T) {
	v := struct {
		B string `json:"b"`
		A any    `json:"a"`
	}{"<x>&", map[string]any{"z": 1, "y": json.Number("1234567890123456789")}}
	got, err := Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":{"y":1234567890123456789,"z":1},"b":"<x>&"}`; string(got) != want {
		t.Errorf("Canonical = %s, want %s", got, want)
	}
}

// The id of a fixed value never changes: every stored key depends on it.
func TestIDIsPinned(t *testing.T) {
	if got, want := ID("task", "a\"b"), Bytes([]byte(`["task","a\"b"]`)); got != want {
		t.Errorf("ID = %s, want %s", got, want)
	}
	if got, want := Seed(7, "t", "0"), Seed(7, "t", "0"); got != want || got < 0 {
		t.Errorf("Seed = %d and %d", got, want)
	}
	if Seed(7, "t", "0") == Seed(7, "t", "1") || Seed(7, "t", "0") == Seed(8, "t", "0") {
		t.Error("different draws share a seed")
	}
}

func TestCanonicalIsAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "m")
		a, err := Canonical(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Canonical(json.RawMessage(a))
		if err != nil || string(a) != string(b) {
			t.Fatalf("not a fixed point: %s then %s (%v)", a, b, err)
		}
	})
}
