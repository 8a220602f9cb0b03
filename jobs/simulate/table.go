package simulate

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table is the figures for people. Errors are two standard errors.
func (r *Report) table() []byte {
	var b bytes.Buffer
	c := r.Settings
	fmt.Fprintf(&b, "%d prompts of pass rates %s, seed %d: groups of %d, at most %d samples, %v to %v of them positive", c.Prompts, c.Rates, c.Seed, c.BAR.N, c.BAR.NMax, c.BAR.Lo, c.BAR.Hi)
	if c.Infra > 0 || c.Truncated > 0 {
		fmt.Fprintf(&b, "; %s without a reward, %s truncated", c.Infra, c.Truncated)
	}
	b.WriteString("\n\n")
	write(&b, func(w io.Writer) {
		fmt.Fprintln(w, "STRATEGY\tROLLOUTS/GROUP\tPROMPTS WITH A GROUP\tBALANCED\tROLLOUTS/PROMPT\tGROUPS/1000\tPOSITIVE\tVARIANCE\t|ADV|\t|ADV|/1000\t")
		for _, s := range r.Results {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%.1f\t%s\t%s\t%s\t%.0f\t\n", s.Strategy, bounds(s.RolloutsGroup, s.RolloutsGroupError, 1), bounds(percent(s.Acceptance), percent(s.AcceptanceError), 1)+"%",
				number(percent(s.BalancedShare), 1)+"%", s.RolloutsPrompt, s.GroupsPerThousand, number(s.Positives, 3), number(s.Variance, 3), number(s.MeanAdvantage, 3), s.AdvantagePerThousand)
		}
	})
	fmt.Fprintf(&b, "\nBatches of %d groups\n", c.Refill.Want)
	write(&b, func(w io.Writer) {
		fmt.Fprintln(w, "STRATEGY\tBATCHES\tFULL\tFILLED\tROUNDS\tROLLOUTS/GROUP IN A BATCH\t")
		for _, s := range r.Results {
			k := s.Batches
			if k.Batches == 0 {
				fmt.Fprintf(w, "%s\t0\t-\t-\t-\t-\t\n", s.Strategy)
				continue
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%.1f%%\t%.2f\t%s\t\n", s.Strategy, k.Batches, k.Full, 100*k.Filled, k.Rounds, number(k.RolloutsTrained, 1))
		}
	})
	r.dropped(&b)
	if n := len(r.Results[0].ByRate); n > 1 && n <= fewRates {
		r.matrix(&b, "Rollouts a group, by pass rate", func(m Measures) string { return number(m.RolloutsGroup, 1) })
		r.matrix(&b, "Prompts with a group, by pass rate", func(m Measures) string { return number(percent(m.Acceptance), 1) + "%" })
	}
	return b.Bytes()
}

// dropped is why prompts gave no group.
func (r *Report) dropped(b *bytes.Buffer) {
	all := map[string]bool{}
	for _, s := range r.Results {
		for reason := range s.Dropped {
			all[string(reason)] = true
		}
	}
	reasons := slices.Sorted(maps.Keys(all))
	if len(reasons) == 0 {
		return
	}
	b.WriteString("\nPrompts without a group\n")
	write(b, func(w io.Writer) {
		fmt.Fprintln(w, "STRATEGY\t"+strings.Join(reasons, "\t")+"\t")
		for _, s := range r.Results {
			fmt.Fprint(w, s.Strategy)
			for _, reason := range reasons {
				n := 0
				for has, count := range s.Dropped {
					if string(has) == reason {
						n = count
					}
				}
				fmt.Fprintf(w, "\t%d", n)
			}
			fmt.Fprintln(w, "\t")
		}
	})
}

// matrix is a figure for every pass rate and strategy.
func (r *Report) matrix(b *bytes.Buffer, title string, figure func(Measures) string) {
	fmt.Fprintf(b, "\n%s\n", title)
	write(b, func(w io.Writer) {
		fmt.Fprint(w, "PASS RATE\tPROMPTS")
		for _, s := range r.Results {
			fmt.Fprint(w, "\t"+s.Strategy)
		}
		fmt.Fprintln(w, "\t")
		for i, at := range r.Results[0].ByRate {
			fmt.Fprintf(w, "%s\t%d", at.label(), at.Prompts)
			for _, s := range r.Results {
				fmt.Fprint(w, "\t"+figure(s.ByRate[i].Measures))
			}
			fmt.Fprintln(w, "\t")
		}
	})
}

func (a AtRate) label() string {
	if a.From == a.To {
		return strconv.FormatFloat(a.From, 'g', 4, 64)
	}
	return fmt.Sprintf("%.2f-%.2f", a.From, a.To)
}

func write(b *bytes.Buffer, lines func(io.Writer)) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', tabwriter.AlignRight)
	lines(w)
	_ = w.Flush() // into memory
}

func percent(x float64) *float64 { x *= 100; return &x }

// number is x, or a dash where there is none.
func number(x *float64, digits int) string {
	if x == nil {
		return "-"
	}
	return strconv.FormatFloat(*x, 'f', digits, 64)
}

func bounds(x, off *float64, digits int) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f ±%.*f", digits, *x, digits, 2**off)
}

// csv is a line for every strategy, and one for each of its pass rates.
func (r *Report) csv() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	exact := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	maybe := func(x *float64) string {
		if x == nil {
			return ""
		}
		return exact(*x)
	}
	line := func(strategy, from, to string, m Measures, k *Batches) {
		cells := []string{strategy, from, to, strconv.Itoa(m.Prompts), strconv.Itoa(m.Rollouts), strconv.Itoa(m.Groups), strconv.Itoa(m.Balanced),
			exact(m.Acceptance), exact(m.AcceptanceError), exact(m.RolloutsPrompt), exact(m.RolloutsPromptError), maybe(m.RolloutsGroup), maybe(m.RolloutsGroupError),
			exact(m.GroupsPerThousand), exact(m.BalancedShare), maybe(m.Positives), maybe(m.Variance), maybe(m.MeanAdvantage), exact(m.AdvantagePerThousand)}
		if k == nil {
			cells = append(cells, "", "", "", "", "")
		} else {
			cells = append(cells, strconv.Itoa(k.Batches), strconv.Itoa(k.Full), exact(k.Rounds), exact(k.Filled), maybe(k.RolloutsTrained))
		}
		_ = w.Write(cells) // into memory
	}
	_ = w.Write(strings.Split("strategy,rate_from,rate_to,prompts,rollouts,groups,balanced,acceptance,acceptance_error,rollouts_per_prompt,rollouts_per_prompt_error,"+
		"rollouts_per_group,rollouts_per_group_error,groups_per_1000_rollouts,balanced_share,positives,reward_variance,mean_abs_advantage,abs_advantage_per_1000_rollouts,"+
		"batches,full_batches,rounds_per_batch,filled,rollouts_per_trained_group", ","))
	for _, s := range r.Results {
		line(s.Strategy, "", "", s.Measures, &s.Batches)
		for _, at := range s.ByRate {
			line(s.Strategy, exact(at.From), exact(at.To), at.Measures, nil)
		}
	}
	w.Flush()
	return b.Bytes()
}
