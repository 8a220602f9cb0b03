package cosine

// The kernels: what runs for every pair. Each has a form in plain Go and, in builds with
// GOEXPERIMENT=simd on amd64, one with vector instructions. They add in different orders, so
// their results differ in the last bits; whoever uses them allows for that (see rounding).
//
// Keys lie in panels of 16: of each position the 16 numbers of the keys beside each other.
// Queries lie the same way in quads of 4.
const (
	panelKeys = 16
	quadQuery = 4
)

// kernels is one way to compute.
type kernels struct {
	name string
	// screen compares a quad with a panel over their common width: bit k of m[q] says that
	// the product of query q and key k is at least least, which is there 8 times.
	screen func(quad, panel []float32, least *[8]float32) (m [quadQuery]uint32)
	// dot is the product of two vectors of the same length.
	dot func(x, y []float32) float32
	// score is the product in float64: eight sums, of every eighth position each. It is the
	// definition, and the one kernel that gives the same bits in every form.
	score func(x, y []float32) float64
	// fold adds x, times signs, to z, in pieces of z's length.
	fold func(z, x, signs []float32)
}

var plain = kernels{"scalar", screenPlain, dotPlain, scorePlain, foldPlain}

// fastest is set once at start, by what the build and the processor have.
var fastest = plain

// Path names the kernels that this process uses: scalar, or avx2.
func Path() string { return fastest.name }

func screenPlain(quad, panel []float32, least *[8]float32) (m [quadQuery]uint32) {
	for half := 0; half < panelKeys; half += 4 {
		var c [quadQuery][4]float32
		for a, b := quad, panel; len(a) >= quadQuery && len(b) >= panelKeys; a, b = a[quadQuery:], b[panelKeys:] {
			k := (*[4]float32)(b[half : half+4])
			for q := range c {
				f := a[q]
				c[q][0] += f * k[0]
				c[q][1] += f * k[1]
				c[q][2] += f * k[2]
				c[q][3] += f * k[3]
			}
		}
		for q := range c {
			for i, s := range c[q] {
				if s >= least[0] {
					m[q] |= 1 << (half + i)
				}
			}
		}
	}
	return m
}

func dotPlain(x, y []float32) float32 {
	y = y[:len(x)]
	var a, b, c, d, e, f, g, h float32
	i := 0
	for ; i+8 <= len(x); i += 8 {
		p, q := (*[8]float32)(x[i:]), (*[8]float32)(y[i:])
		a += p[0] * q[0]
		b += p[1] * q[1]
		c += p[2] * q[2]
		d += p[3] * q[3]
		e += p[4] * q[4]
		f += p[5] * q[5]
		g += p[6] * q[6]
		h += p[7] * q[7]
	}
	for ; i < len(x); i++ {
		a += x[i] * y[i]
	}
	return ((a + b) + (c + d)) + ((e + f) + (g + h))
}

func scorePlain(x, y []float32) float64 {
	var s [8]float64
	return scoreRest(&s, x, y)
}

// scoreRest goes on with the eight sums over positions from a multiple of eight on.
func scoreRest(s *[8]float64, x, y []float32) float64 {
	y = y[:len(x)]
	a, b, c, d, e, f, g, h := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	i := 0
	for ; i+8 <= len(x); i += 8 {
		p, q := (*[8]float32)(x[i:]), (*[8]float32)(y[i:])
		a += float64(p[0]) * float64(q[0])
		b += float64(p[1]) * float64(q[1])
		c += float64(p[2]) * float64(q[2])
		d += float64(p[3]) * float64(q[3])
		e += float64(p[4]) * float64(q[4])
		f += float64(p[5]) * float64(q[5])
		g += float64(p[6]) * float64(q[6])
		h += float64(p[7]) * float64(q[7])
	}
	for ; i < len(x); i++ {
		a += float64(x[i]) * float64(y[i])
	}
	return ((a + b) + (c + d)) + ((e + f) + (g + h))
}

func foldPlain(z, x, signs []float32) {
	for len(x) > 0 {
		n := min(len(z), len(x))
		for i, f := range x[:n] {
			z[i] += f * signs[i]
		}
		x, signs = x[n:], signs[n:]
	}
}

// ulp is half the distance of 1 from the next float32: what one rounding is off at most.
const ulp = 1.0 / (1 << 24)

// rounding is how far a float32 product of two vectors of about length one can be from the
// true one when no sum in it has more than n terms (Higham, Accuracy and Stability, 3.1),
// with two percent to spare for lengths that are not quite one.
func rounding(n int) float64 { return 1.02 * ulp * float64(n) }

// screenTerms and dotTerms are the longest sums of the kernels above and of their SIMD forms.
func screenTerms(width int) int { return width + 2 }
func dotTerms(width int) int    { return width/8 + 16 }
