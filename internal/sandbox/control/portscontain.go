package control

import (
	"net/http"
	"net/url"
	"strings"
)

// What a sandbox serves comes from the same origin as the API and as every other
// sandbox's ports, and is hostile. So a page of it gets an origin of its own, which is
// nobody's (a CSP sandbox without allow-same-origin); its cookies carry a name and path
// that only it gets back; headers that speak for the whole origin do not pass; and the
// token in its address is told to no other site.

// sandboxed lets a page run scripts, in an opaque origin.
const sandboxed = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock"

// wholeOrigin are headers that change how a browser treats the API's origin.
var wholeOrigin = []string{
	"Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Public-Key-Pins", "Alt-Svc",
	"Nel", "Report-To", "Reporting-Endpoints", "Origin-Agent-Cluster", "Set-Login", "X-Request-Id",
	"Cross-Origin-Opener-Policy", // a sandboxed page with one is not shown at all
}

// contain is for every answer below portPrefix.
func contain(h http.Header) {
	h.Add("Content-Security-Policy", sandboxed) // besides the program's own: both hold
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
}

// contain makes a program's answer one that its client's browser can be given.
func (v visit) contain(resp *http.Response, r *http.Request) {
	h := resp.Header
	for _, name := range wholeOrigin {
		h.Del(name)
	}
	contain(h)
	// Its pages are of no origin, so their own requests are from elsewhere. Whoever knows
	// the token may read; no cookie goes along.
	if r.Header.Get("Origin") == "null" || h.Get("Access-Control-Allow-Origin") == "" {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Del("Access-Control-Allow-Credentials")
	}
	if to := h.Get("Location"); to != "" {
		h.Set("Location", v.location(to, r.Host))
	}
	v.cookiesOut(h)
}

// preflight answers what a browser asks before a page of a port may send more than a
// plain request to it.
func preflight(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	contain(h)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// location is a redirect of the program as its client must see it.
func (v visit) location(to, host string) string {
	u, err := url.Parse(to)
	if err != nil {
		return to
	}
	local := u.Host == "" || u.Host == host || u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	if !local || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" || u.Host == "" && !strings.HasPrefix(u.Path, "/") {
		return to // elsewhere, or relative
	}
	if u.Host == host && strings.HasPrefix(u.EscapedPath(), v.prefix+"/") || u.Host == "" && strings.HasPrefix(to, v.prefix+"/") {
		return to // it has read X-Forwarded-Prefix
	}
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	out := v.prefix + path
	if u.RawQuery != "" {
		out += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		out += "#" + u.EscapedFragment()
	}
	return out
}

// cookieMark begins the names of cookies that programs set.
const cookieMark = "port-"

// cookiesOut gives cookies a name and a path that keep them from the API, from other
// sandboxes and from what else is on this host.
func (v visit) cookiesOut(h http.Header) {
	resp := http.Response{Header: http.Header{"Set-Cookie": h["Set-Cookie"]}}
	h.Del("Set-Cookie")
	for _, c := range resp.Cookies() {
		if !strings.HasPrefix(c.Path, "/") {
			c.Path = "/"
		}
		c.Name, c.Path, c.Domain = cookieMark+c.Name, v.prefix+c.Path, ""
		if text := c.String(); text != "" {
			h.Add("Set-Cookie", text)
		}
	}
}

// cookiesIn gives the program back what it has set, and nothing else.
func (v visit) cookiesIn(h http.Header) {
	request := http.Request{Header: http.Header{"Cookie": h["Cookie"]}}
	h.Del("Cookie")
	own := http.Request{Header: http.Header{}}
	for _, c := range request.Cookies() {
		if name, ok := strings.CutPrefix(c.Name, cookieMark); ok {
			own.AddCookie(&http.Cookie{Name: name, Value: c.Value, Quoted: c.Quoted})
		}
	}
	if text := own.Header.Get("Cookie"); text != "" {
		h.Set("Cookie", text)
	}
}
