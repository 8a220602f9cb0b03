package egress

import (
	"crypto/ed25519"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/internal/sandbox"
)

func key(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pub, priv
}

// A grant comes back as it was sealed, from any of the controllers' keys; every changed
// byte is a forgery.
func TestSeal(t *testing.T) {
	pub, priv := key(t)
	other, _ := key(t)
	g := Grant{Sandbox: "one", UID: "u-1", Generation: 3, TokenSum: TokenSum("secret"),
		Rules: Rules([]sandbox.EgressRule{{Domain: "pypi.org", For: time.Minute}, {CIDR: "203.0.113.0/24", Ports: []uint16{22}}}, time.Unix(1000, 0))}
	sealed, err := Seal(g, priv)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Open(sealed, []ed25519.PublicKey{other, pub})
	if err != nil || !reflect.DeepEqual(got, g) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if want := time.Unix(1060, 0); !got.Rules[0].Until().Equal(want) || !got.Rules[1].Until().IsZero() {
		t.Errorf("ends %v and %v", got.Rules[0].Until(), got.Rules[1].Until())
	}
	if strings.Contains(sealed, "secret") || !got.holds("secret") || got.holds("secreT") {
		t.Error("the token is in the grant, or not known by it")
	}
	if _, err := Open(sealed, []ed25519.PublicKey{other}); !errors.Is(err, ErrForged) {
		t.Errorf("another key: %v", err)
	}
	for i := range sealed {
		forged := []byte(sealed)
		if forged[i] = 'A'; sealed[i] == 'A' {
			forged[i] = 'B'
		}
		// The last character of each part has bits that are not part of it.
		if got, err := Open(string(forged), []ed25519.PublicKey{pub}); err == nil && !reflect.DeepEqual(got, g) {
			t.Fatalf("byte %d changed and %+v came", i, got)
		}
	}
}

func FuzzOpen(f *testing.F) {
	pub, priv := key(f)
	sealed, err := Seal(Grant{UID: "x"}, priv)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(".")
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := Open(text, []ed25519.PublicKey{pub}); err == nil && g.UID != "x" {
			t.Errorf("%q opened as %+v", text, g)
		}
	})
}

// A rule opens the addresses inside it but no closed range that it does not name.
func TestByAddr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := rapid.Custom(func(t *rapid.T) netip.Addr {
			return netip.AddrFrom4([4]byte{rapid.SampledFrom([]byte{10, 169, 198, 203}).Draw(t, "a"),
				rapid.SampledFrom([]byte{0, 18, 254}).Draw(t, "b"), rapid.ByteRange(0, 3).Draw(t, "c"), rapid.ByteRange(0, 3).Draw(t, "d")})
		})
		prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
			return netip.PrefixFrom(addr.Draw(t, "of"), rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
		})
		rule, closed, to := prefix.Draw(t, "rule"), rapid.SliceOfN(prefix, 0, 4).Draw(t, "closed"), addr.Draw(t, "to")
		want := rule.Contains(to)
		for _, c := range closed {
			inside := c.Bits() > rule.Bits() && rule.Contains(c.Addr())
			if inside && c.Contains(to) {
				want = false
			}
		}
		g := Grant{Rules: []Rule{{CIDR: rule.String()}}}
		if _, got := g.ByAddr(to, 443, time.Now(), closed); got != want {
			t.Errorf("rule %v, closed %v, to %v: %v", rule, closed, to, got)
		}
	})
}

func TestByName(t *testing.T) {
	now := time.Unix(1000, 0)
	g := Grant{Rules: []Rule{
		{Domain: "*.pypi.org", Ports: []uint16{443}}, {Domain: "example.org", UntilUS: now.Add(time.Minute).UnixMicro()},
		{Domain: "example.org", UntilUS: now.Add(time.Hour).UnixMicro()}, {CIDR: "203.0.113.7"},
	}}
	for host, want := range map[string]bool{"pypi.org": false, "a.pypi.org": true, "a.b.pypi.org": true, "xpypi.org": false, "example.org": true, "": false} {
		if _, ok := g.ByName(host, 443, now); ok != want {
			t.Errorf("%q: %v", host, ok)
		}
	}
	if _, ok := g.ByName("a.pypi.org", 80, now); ok {
		t.Error("a port that is not listed")
	}
	if until, ok := g.ByName("example.org", 80, now); !ok || !until.Equal(now.Add(time.Hour)) {
		t.Errorf("until %v, %v", until, ok)
	}
	if _, ok := g.ByName("example.org", 80, now.Add(time.Hour)); ok {
		t.Error("open when its time is up")
	}
	if _, ok := g.ByAddr(netip.MustParseAddr("203.0.113.7"), 22, now, Special()); !ok {
		t.Error("one address")
	}
}

// "Everything" is not the metadata service, a private network or this machine.
func TestSpecial(t *testing.T) {
	everything := Grant{Rules: []Rule{{CIDR: "0.0.0.0/0"}, {CIDR: "::/0"}}}
	for _, a := range []string{"169.254.169.254", "10.1.2.3", "192.168.0.1", "172.31.0.1", "127.0.0.1", "100.100.100.200", "198.18.0.1", "fd00:ec2::254", "fe80::1", "::1", "64:ff9b::a9fe:a9fe"} {
		if _, ok := everything.ByAddr(netip.MustParseAddr(a), 80, time.Now(), Special()); ok {
			t.Errorf("%s is open", a)
		}
		listed := Grant{Rules: []Rule{{CIDR: a}}}
		if _, ok := listed.ByAddr(netip.MustParseAddr(a), 80, time.Now(), Special()); !ok {
			t.Errorf("%s is listed and closed", a)
		}
	}
	if _, ok := everything.ByAddr(netip.MustParseAddr("203.0.113.1"), 80, time.Now(), Special()); !ok {
		t.Error("a public address is closed")
	}
}
