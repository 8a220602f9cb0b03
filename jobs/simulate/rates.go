package simulate

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"orchard/internal/exit"
)

// readRates is the pass rate of every prompt, in the order in which prompts are started. Of a
// list each rate has the same number of prompts, but for a remainder.
func readRates(c Config) ([]float64, error) {
	r := rand.New(rand.NewPCG(uint64(c.Seed), 1))
	rates := make([]float64, c.Prompts)
	if params, ok := strings.CutPrefix(c.Rates, "beta:"); ok {
		a, b, err := parseBeta(params)
		if err != nil {
			return nil, exit.With(exit.Config, err)
		}
		for i := range rates {
			rates[i] = drawBeta(r, a, b)
		}
		return rates, nil
	}
	list, err := parseList(c.Rates)
	if err != nil {
		return nil, err
	}
	for i := range rates {
		rates[i] = list[i%len(list)]
	}
	r.Shuffle(len(rates), func(i, j int) { rates[i], rates[j] = rates[j], rates[i] })
	return rates, nil
}

func parseBeta(s string) (a, b float64, err error) {
	first, second, _ := strings.Cut(s, ",")
	a, err1 := strconv.ParseFloat(strings.TrimSpace(first), 64)
	b, err2 := strconv.ParseFloat(strings.TrimSpace(second), 64)
	const least, most = .01, 1e6
	if err1 != nil || err2 != nil || !(a >= least && a <= most && b >= least && b <= most) {
		return 0, 0, fmt.Errorf("--rates beta:%s: must be two numbers from %v to %v, as in beta:0.5,2", s, least, most)
	}
	return a, b, nil
}

// drawBeta is a draw of a beta distribution. Where its two parts are both too small for a
// number, nothing is left of it but a coin.
func drawBeta(r *rand.Rand, a, b float64) float64 {
	x := distuv.Beta{Alpha: a, Beta: b, Src: r}.Rand()
	if x >= 0 && x <= 1 {
		return x
	}
	if r.Float64() < a/(a+b) {
		return 1
	}
	return 0
}

// parseList reads numbers with commas, or else a file of them.
func parseList(s string) ([]float64, error) {
	if _, err := strconv.ParseFloat(strings.TrimSpace(strings.Split(s, ",")[0]), 64); err != nil {
		return readFile(s)
	}
	var list []float64
	for text := range strings.SplitSeq(s, ",") {
		p, err := parseRate(text)
		if err != nil {
			return nil, exit.Configf("--rates: %w", err)
		}
		list = append(list, p)
	}
	return list, nil
}

func parseRate(text string) (float64, error) {
	p, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%q must be a pass rate from 0 to 1", strings.TrimSpace(text))
	}
	return p, nil
}

// readFile reads a number a line. Empty lines, and what follows a #, are for people.
func readFile(path string) ([]float64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Configf("--rates: %q is neither a list such as 0.1,0.2 nor beta:A,B nor a file", path)
	}
	if err != nil {
		return nil, exit.Configf("--rates: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, exit.Inputf("--rates %s: is a folder; give a file with one pass rate a line (of a dataset of pass rates they are the column rate)", path)
	}
	var list []float64
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		p, err := parseRate(text)
		if err != nil {
			return nil, exit.Inputf("--rates %s: line %d: %w", path, n, err)
		}
		list = append(list, p)
	}
	if err := lines.Err(); err != nil {
		return nil, exit.Inputf("--rates %s: %w", path, err)
	}
	if len(list) == 0 {
		return nil, exit.Inputf("--rates %s: holds no pass rates", path)
	}
	return list, nil
}
