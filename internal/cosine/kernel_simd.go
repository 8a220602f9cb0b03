//go:build goexperiment.simd && amd64

package cosine

import "simd/archsimd"

// AVX-512 has no kernels of its own: measured on processors that have it, blocks of 256
// bits are the faster ones.
func init() {
	if archsimd.X86.AVX2() && archsimd.X86.FMA() {
		fastest = kernels{"avx2", screenAVX2, dotAVX2, scoreAVX2, foldAVX2}
	}
}

func load8(s []float32) archsimd.Float32x8 { return archsimd.LoadFloat32x8((*[8]float32)(s)) }

// screenAVX2 holds 4 queries times 16 keys in registers. No more is done in a turn: the
// compiler saves a float32 it has no register for with an instruction of the old kind, and
// one of those between vector instructions costs a hundred times what it saves.
func screenAVX2(quad, panel []float32, least *[8]float32) (m [quadQuery]uint32) {
	var c00, c01, c10, c11, c20, c21, c30, c31 archsimd.Float32x8
	for a, b := quad, panel; len(a) >= quadQuery && len(b) >= panelKeys; a, b = a[quadQuery:], b[panelKeys:] {
		x, y := load8(b[0:8]), load8(b[8:16])
		q := archsimd.BroadcastFloat32x8(a[0])
		c00, c01 = q.MulAdd(x, c00), q.MulAdd(y, c01)
		q = archsimd.BroadcastFloat32x8(a[1])
		c10, c11 = q.MulAdd(x, c10), q.MulAdd(y, c11)
		q = archsimd.BroadcastFloat32x8(a[2])
		c20, c21 = q.MulAdd(x, c20), q.MulAdd(y, c21)
		q = archsimd.BroadcastFloat32x8(a[3])
		c30, c31 = q.MulAdd(x, c30), q.MulAdd(y, c31)
	}
	t := archsimd.LoadFloat32x8(least)
	m[0] = uint32(c00.GreaterEqual(t).ToBits()) | uint32(c01.GreaterEqual(t).ToBits())<<8
	m[1] = uint32(c10.GreaterEqual(t).ToBits()) | uint32(c11.GreaterEqual(t).ToBits())<<8
	m[2] = uint32(c20.GreaterEqual(t).ToBits()) | uint32(c21.GreaterEqual(t).ToBits())<<8
	m[3] = uint32(c30.GreaterEqual(t).ToBits()) | uint32(c31.GreaterEqual(t).ToBits())<<8
	archsimd.ClearAVXUpperBits()
	return m
}

func dotAVX2(x, y []float32) float32 {
	y = y[:len(x)]
	var c0, c1, c2, c3 archsimd.Float32x8
	for len(x) >= 64 && len(y) >= 64 {
		c0 = load8(x[0:8]).MulAdd(load8(y[0:8]), c0)
		c1 = load8(x[8:16]).MulAdd(load8(y[8:16]), c1)
		c2 = load8(x[16:24]).MulAdd(load8(y[16:24]), c2)
		c3 = load8(x[24:32]).MulAdd(load8(y[24:32]), c3)
		c0 = load8(x[32:40]).MulAdd(load8(y[32:40]), c0)
		c1 = load8(x[40:48]).MulAdd(load8(y[40:48]), c1)
		c2 = load8(x[48:56]).MulAdd(load8(y[48:56]), c2)
		c3 = load8(x[56:64]).MulAdd(load8(y[56:64]), c3)
		x, y = x[64:], y[64:]
	}
	for len(x) >= 8 && len(y) >= 8 {
		c0 = load8(x[0:8]).MulAdd(load8(y[0:8]), c0)
		x, y = x[8:], y[8:]
	}
	var s [8]float32
	c0.Add(c1).Add(c2.Add(c3)).Store(&s)
	archsimd.ClearAVXUpperBits()
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])) + dotPlain(x, y)
}

func scoreAVX2(x, y []float32) float64 {
	y = y[:len(x)]
	var low, high archsimd.Float64x4
	for len(x) >= 8 && len(y) >= 8 {
		p, q := load8(x[:8]), load8(y[:8])
		low = p.GetLo().ConvertToFloat64().MulAdd(q.GetLo().ConvertToFloat64(), low)
		high = p.GetHi().ConvertToFloat64().MulAdd(q.GetHi().ConvertToFloat64(), high)
		x, y = x[8:], y[8:]
	}
	var s [8]float64
	low.Store((*[4]float64)(s[:4]))
	high.Store((*[4]float64)(s[4:]))
	archsimd.ClearAVXUpperBits()
	return scoreRest(&s, x, y)
}

func foldAVX2(z, x, signs []float32) {
	for len(x) >= len(z) && len(z) > 0 {
		p, q, r := z, x, signs
		for len(p) >= 8 && len(q) >= 8 && len(r) >= 8 {
			load8(q[:8]).MulAdd(load8(r[:8]), load8(p[:8])).Store((*[8]float32)(p[:8]))
			p, q, r = p[8:], q[8:], r[8:]
		}
		for i := range p {
			p[i] += q[i] * r[i]
		}
		x, signs = x[len(z):], signs[len(z):]
	}
	archsimd.ClearAVXUpperBits()
	foldPlain(z, x, signs)
}
