package gen

import (
	"fmt"
	"strings"
)

// site is what one owner has.
type site struct {
	name   string // of its own, for comparing
	domain string // ASCII
	shown  string // the domain as people write it, when that is not ASCII
}

// labels in other scripts and their form in DNS, written down rather than computed.
var labels = [][2]string{{"bücher", "xn--bcher-kva"}, {"münchen", "xn--mnchen-3ya"}, {"straße", "xn--strae-oqa"}, {"café", "xn--caf-dma"}, {"例え", "xn--r8jz45g"}}

// suffixes under which anybody may have a site, some of several labels.
var suffixes = []string{"com", "org", "de", "co.uk", "com.au", "net", "github.io", "info"}

// numbered is the i-th site of a family; every ninth of the first is not ASCII.
func numbered(family string, i int) site {
	suffix := suffixes[i%len(suffixes)]
	name := fmt.Sprintf("%s%d", family, i)
	if n := i / 9; i%9 == 4 && n < len(labels) && family == "eval" {
		return site{name, labels[n][1] + "." + suffix, labels[n][0] + "." + suffix}
	}
	return site{name: name, domain: name + "." + suffix}
}

// solo is the site that the i-th lonely row has to itself.
func solo(i int) site { return numbered("solo", i) }

// spelled is an address on the site, in the k-th way of writing one.
func (s site) spelled(k int) string {
	d := s.domain
	if s.shown != "" && k%2 == 0 {
		d = s.shown
	}
	switch k % 9 {
	case 0:
		return "https://" + d + "/"
	case 1:
		return "http://www." + d
	case 2:
		return "HTTPS://WWW." + strings.ToUpper(s.domain) + ":443/Path"
	case 3:
		return d // as lists have it
	case 4:
		return "https://shop.eu." + d + "./p?q=1#f"
	case 5:
		return "https://" + d + ":8443/a/b"
	case 6:
		return "https://user:word@" + d + "/"
	case 7:
		return "https://" + strings.ReplaceAll(d, ".", "。") + "/x" // the full stop of other scripts
	}
	return "  https://m." + d + "/?from=www.eval3.co.uk "
}

// lookalike is an address on the site that looks like one on a site of an evaluation set
// or of a list.
func (w *World) lookalike(s site, i int) (url, plant string) {
	other := w.evalSites[i%len(w.evalSites)]
	if i%3 == 0 {
		other = w.listed[i%len(w.listed)]
	}
	switch i % 6 {
	case 0:
		return "https://" + other.domain + "." + s.domain + "/", "another's name as a subdomain"
	case 1:
		return "https://" + s.domain + "/?u=https://" + other.domain + "/", "another's address in the query"
	case 2:
		return "https://" + other.domain + "@" + s.domain + "/", "another's name as the user"
	case 3:
		return "https://" + s.domain + "/" + other.domain, "another's name in the path"
	case 4:
		return "https://www." + s.domain + ":443#@" + other.domain, "another's name in the fragment"
	}
	return "https://not" + other.name + "." + s.domain + "/", "a name that ends like another's"
}

// own is a request that no other family has.
func own(family string, i int) string {
	return fmt.Sprintf("%s: find item %d and read its label", family, i)
}

// almost is a request that is a word away from one of an evaluation set.
func almost(i int) string {
	switch i % 4 {
	case 0:
		return fmt.Sprintf("Compare the café prices of plan %d in Straße 6", i%120)
	case 1:
		return fmt.Sprintf("Search for a naïve résumé template with %d pages and open it today", i%64)
	case 2:
		return fmt.Sprintf("Search for a naive resume template with %d pages and open it", i%64) // other letters
	}
	return own("lonely", i)
}

// respelled says the same in the k-th other way of writing it.
func respelled(s string, k int) string {
	switch k % 6 {
	case 0:
		return strings.ToUpper(strings.ReplaceAll(s, "ß", "ss"))
	case 1:
		return "  " + strings.Join(strings.Fields(s), "\u00a0\t") + "\r\n"
	case 2: // letters and marks apart
		return strings.NewReplacer("é", "e\u0301", "ï", "i\u0308", "ü", "u\u0308").Replace(s)
	case 3: // full width
		return strings.Map(func(r rune) rune {
			if r > ' ' && r < 0x7f {
				return r - '!' + '！'
			}
			return r
		}, s)
	case 4:
		return "«" + s + "»?!"
	}
	return strings.ReplaceAll(s, " ", ", ")
}
