package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"regexp"
	"time"

	"sigs.k8s.io/yaml"
)

// prices is what sandboxes cost. The zero prices knows nothing, and what is not known is
// not zero.
type prices struct {
	currency       string
	onDemand, spot rates
}

// rates are of one kind of machine, in units of the currency. nil is not known.
type rates struct {
	cpuHour, gibHour, gpuHour *big.Rat
}

var (
	currencyRule = regexp.MustCompile(`^[A-Z]{3}$`)
	priceRule    = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,18})?(e-?[0-9]{1,2})?$`)
)

func readPrices(path string) (prices, error) {
	if path == "" {
		return prices{}, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return prices{}, fmt.Errorf("--prices-file: %w", err)
	}
	p, err := parsePrices(raw)
	if err != nil {
		return p, fmt.Errorf("--prices-file %s: %w", path, err)
	}
	return p, nil
}

func parsePrices(raw []byte) (prices, error) {
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return prices{}, fmt.Errorf("neither YAML nor JSON: %w", err)
	}
	type table struct {
		CPUHour json.RawMessage `json:"cpu_hour"`
		GiBHour json.RawMessage `json:"memory_gib_hour"`
		GPUHour json.RawMessage `json:"gpu_hour"`
	}
	var file struct {
		Currency string `json:"currency"`
		OnDemand table  `json:"on_demand"`
		Spot     table  `json:"spot"`
	}
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return prices{}, err
	}
	var errs []error
	if !currencyRule.MatchString(file.Currency) {
		errs = append(errs, fmt.Errorf("currency %q is not three capital letters such as USD", file.Currency))
	}
	price := func(name string, raw json.RawMessage) *big.Rat {
		if len(raw) == 0 || string(raw) == "null" {
			return nil
		}
		text, ok := scalar(raw)
		if !ok || !priceRule.MatchString(text) {
			errs = append(errs, fmt.Errorf("%s: %s is not a price such as 0.0316", name, raw))
			return nil
		}
		v, _ := new(big.Rat).SetString(text)
		return v
	}
	read := func(kind string, t table) rates {
		return rates{price(kind+".cpu_hour", t.CPUHour), price(kind+".memory_gib_hour", t.GiBHour), price(kind+".gpu_hour", t.GPUHour)}
	}
	p := prices{file.Currency, read("on_demand", file.OnDemand), read("spot", file.Spot)}
	return p, errors.Join(errs...)
}

// usage is what sandboxes held, for how long, and what that cost.
type usage struct {
	cpu, memory, gpu float64 // seconds of a processor, of a byte, of a GPU
	micros           int64   // millionths of the currency, of what is priced
	unpriced         int     // how many sandboxes held what has no known price
}

func (u *usage) add(v usage) {
	u.cpu, u.memory, u.gpu = u.cpu+v.cpu, u.memory+v.memory, u.gpu+v.gpu
	u.micros, u.unpriced = u.micros+v.micros, u.unpriced+v.unpriced
}

func (u usage) minus(v usage) usage {
	return usage{u.cpu - v.cpu, u.memory - v.memory, u.gpu - v.gpu, u.micros - v.micros, u.unpriced - v.unpriced}
}

// held is from when to when a machine held what st asked for, now at the latest.
func held(st State, now time.Time) (from, to time.Time) {
	from, to = st.Scheduled, st.Ended
	if from.IsZero() {
		from = st.Ready // a runtime that says no more
	}
	if to.IsZero() || to.After(now) {
		to = now
	}
	if from.IsZero() || from.After(to) {
		return to, to
	}
	return from, to
}

// usage is what st held between since and now. What a scheduler keeps free counts,
// whether it is used or not.
func (p prices) usage(st State, since, now time.Time) usage {
	from, to := held(st, now)
	if from.Before(since) {
		from = since
	}
	ms := max(to.Sub(from).Milliseconds(), 0)
	pick := func(request, limit string) float64 {
		if request != "" {
			return amount(request)
		}
		return amount(limit)
	}
	milli := int64(math.Round(pick(st.Spec.Reserve.CPU, st.Spec.CPU) * 1000))
	size := int64(math.Round(pick(st.Spec.Reserve.Memory, st.Spec.Memory)))
	gpus := int64(st.Spec.Placement.GPU)
	seconds := float64(ms) / 1000
	u := usage{cpu: float64(milli) / 1000 * seconds, memory: float64(size) * seconds, gpu: float64(gpus) * seconds}
	at := p.onDemand
	if st.Spot {
		at = p.spot
	}
	total := new(big.Rat)
	for _, part := range []struct {
		price       *big.Rat
		count, unit int64
	}{{at.cpuHour, milli, 1000}, {at.gibHour, size, 1 << 30}, {at.gpuHour, gpus, 1}} {
		switch {
		case part.count == 0:
		case part.price == nil:
			u.unpriced = 1
			return u
		default:
			hours := new(big.Rat).SetFrac64(ms, time.Hour.Milliseconds())
			total.Add(total, hours.Mul(hours, new(big.Rat).SetFrac64(part.count, part.unit)).Mul(hours, part.price))
		}
	}
	u.micros = micros(total)
	return u
}

// micros is v in millionths, rounded to the nearest, halves up.
func micros(v *big.Rat) int64 {
	scaled := new(big.Rat).Mul(v, big.NewRat(1_000_000, 1))
	scaled.Add(scaled, big.NewRat(1, 2))
	return new(big.Int).Div(scaled.Num(), scaled.Denom()).Int64()
}
