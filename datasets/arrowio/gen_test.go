package arrowio

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"orchard/datasets/record"
)

// rows draws rows of R with every field set to something, ids in order.
func rows[R record.Row](t *rapid.T) []R {
	out := make([]R, rapid.IntRange(0, 12).Draw(t, "rows"))
	for i := range out {
		fill(t, reflect.ValueOf(&out[i]).Elem(), fmt.Sprintf("row%d", i))
		reflect.ValueOf(&out[i]).Elem().Field(0).SetString(fmt.Sprintf("%04d", i))
	}
	return out
}

// fill draws a value of any type that a row may have.
func fill(t *rapid.T, v reflect.Value, label string) {
	switch v.Kind() {
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label+"?") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), label)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			us := rapid.Int64Range(-62135596800000000, 253402300799999999).Draw(t, label)
			v.Set(reflect.ValueOf(time.UnixMicro(us).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), label+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, label+"#")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), label+"[]")
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Float32, reflect.Float64:
		f := rapid.Float64().Draw(t, label)
		if v.Kind() == reflect.Float32 {
			f = float64(float32(math.Mod(f, math.MaxFloat32)))
		}
		v.SetFloat(f)
	default:
		if v.CanUint() {
			v.SetUint(rapid.Uint64Range(0, 1<<v.Type().Bits()-1).Draw(t, label))
			return
		}
		half := int64(1) << (v.Type().Bits() - 1)
		v.SetInt(rapid.Int64Range(-half, half-1).Draw(t, label))
	}
}

// everything has each type that a column can have, nested and null.
type everything struct {
	ID      string     `json:"id"`
	Bytes   []byte     `json:"bytes"`
	Bool    *bool      `json:"bool"`
	I8      int8       `json:"i8"`
	I16     *int16     `json:"i16"`
	I32     int32      `json:"i32"`
	I64     *int64     `json:"i64"`
	Int     int        `json:"int"`
	U8      uint8      `json:"u8"`
	U16     uint16     `json:"u16"`
	U32     *uint32    `json:"u32"`
	U64     uint64     `json:"u64"`
	F32     float32    `json:"f32"`
	F64     *float64   `json:"f64"`
	At      time.Time  `json:"at" volatile:"true"`
	Maybe   *time.Time `json:"maybe"`
	Str     *string    `json:"str"`
	Named   outcome    `json:"named"`
	Strings []string   `json:"strings"`
	Nested  [][]int32  `json:"nested"`
	Inner   inner      `json:"inner"`
	InnerP  *inner     `json:"inner_p"`
	Inners  []inner    `json:"inners"`
	Nulls   []*float64 `json:"nulls"`
}

type outcome string

type inner struct {
	Ref  string    `json:"ref" blob:"true"`
	IDs  []int32   `json:"ids"`
	Log  []float32 `json:"log"`
	Deep []deep    `json:"deep"`
}

type deep struct {
	N *int64   `json:"n"`
	S []string `json:"s"`
}

func (e everything) Key() string         { return e.ID }
func (everything) Schema() (string, int) { return "everything", 3 }

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}
