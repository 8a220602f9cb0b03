package wording

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	t.Parallel()
	got := Words("Don't sum_all(x2, ÿ)—日本語 and 中a e\u0301 +")
	want := []string{"Don", "t", "sum_all", "x2", "ÿ", "日", "本", "語", "and", "中", "a", "e\u0301"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNormal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", " \n\t ": "", "  Mend\u00a0IT\r\n now ": "mend it now", "ＦＩＮＤ ﬁve cafe\u0301": "find five café", "ÄÖ": "äö", "a, b!": "a, b!",
	} {
		if got := Normal(in); got != want || Normal(got) != got {
			t.Errorf("Normal(%q) = %q, want %q", in, got, want)
		}
	}
}
