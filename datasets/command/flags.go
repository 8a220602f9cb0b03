package command

import (
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
)

const aboutWhere = `CONDITIONS
   --where 'COLUMN OP VALUE', with = != < <= > >= and ~ (contains), or null as the value;
   several must all hold. A dot goes into structs and lists; of a list it is enough that
   one element matches, and != is the opposite of =. Quotes keep a value as it is: 'name="null"'.`

func jsonFlag(what string) cli.Flag { return &cli.BoolFlag{Name: "json", Usage: what} }

func columnsFlag() cli.Flag {
	return &cli.StringFlag{Name: "columns", Usage: "only these `COLUMNS`, comma-separated; a dot goes into structs and lists, as in verdict.outcome,trajectory.messages.role"}
}

func whereFlag() cli.Flag {
	return &cli.GenericFlag{Name: "where", Value: &conditions{}, Usage: "only rows for which the `CONDITION` holds, such as 'verdict.outcome=resolved'; may be repeated"}
}

// conditions are the values of a repeated flag; commas are part of them.
type conditions []string

func (c *conditions) Set(s string) error { *c = append(*c, s); return nil }
func (c *conditions) String() string     { return strings.Join(*c, " ") }

func whereOf(c *cli.Context) []string {
	if w, ok := c.Generic("where").(*conditions); ok {
		return *w
	}
	return nil
}

func columnsOf(c *cli.Context) []string {
	var columns []string
	for name := range strings.SplitSeq(c.String("columns"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			columns = append(columns, name)
		}
	}
	return columns
}

// parseSize reads 256MB, 64MiB or a number of bytes.
func parseSize(flag, s string) (int64, error) {
	number := strings.TrimRight(s, "kKMGTiB ")
	factors := map[string]int64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	factor, ok := factors[strings.TrimSpace(s[len(number):])]
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || n <= 0 || n*float64(factor) > 1e18 {
		return 0, exit.Configf("%s: %q is no size; write 256MB or 64MiB", flag, s)
	}
	return int64(n * float64(factor)), nil
}

// parseAge reads what time.ParseDuration does, and days.
func parseAge(flag, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || d < 0 {
		return 0, exit.Configf("%s: %q is no age; write 7d, 36h or 0s", flag, s)
	}
	return d, nil
}
