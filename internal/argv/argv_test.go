package argv

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestArrange(t *testing.T) {
	t.Parallel()
	app := &cli.App{
		Flags: []cli.Flag{&cli.StringFlag{Name: "top"}},
		Commands: []*cli.Command{
			{Name: "run", Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "parameter", Aliases: []string{"p"}}, &cli.BoolFlag{Name: "v"},
			}, Subcommands: []*cli.Command{{Name: "ls", Flags: []cli.Flag{&cli.StringFlag{Name: "dir"}}}}},
			{Name: "import", Flags: []cli.Flag{&cli.StringFlag{Name: "filter"}, &cli.IntFlag{Name: "limit"}}},
		},
	}
	for _, c := range []struct{ name, in, want string }{
		{"flags after the argument", "o|run|swe|-p|a=b|--v", "o|run|-p|a=b|--v|swe"},
		{"already in order", "o|run|-p|a=b|swe", "o|run|-p|a=b|swe"},
		{"an argument named like a flag's value", "o|run|-p|ls|swe", "o|run|-p|ls|swe"},
		{"a subcommand", "o|run|ls|x|--dir|d", "o|run|ls|--dir|d|x"},
		{"global flag", "o|--top|run|run|swe|-v", "o|--top|run|run|-v|swe"},
		{"options, one a line, values with spaces and quotes", "o|import|--options=--filter=language == \"go\"\n\n  --limit=3  \n", "o|import|--filter=language == \"go\"|--limit=3"},
		{"an empty parameter is the default", "o|import|--options=--filter=\n--limit=3", "o|import|--limit=3"},
		{"a value that ends in =", "o|import|--options=--filter=a ==\n--limit=3", "o|import|--filter=a ==|--limit=3"},
		{"a value with line breaks", "o|import|--options=--filter=a\n  && b\n--limit=3", "o|import|--filter=a\n&& b|--limit=3"},
		{"no options", "o|import|--options=", "o|import"},
		{"after --", "o|run|a|--|-p|--options=x", "o|run|--|a|-p|--options=x"},
		{"a lone dash is an argument", "o|import|-|--limit=1", "o|import|--limit=1|-"},
		{"unknown flag", "o|run|swe|--zz", "o|run|--zz|swe"},
		{"nothing", "o", "o"},
	} {
		got := strings.Join(Arrange(app, strings.Split(c.in, "|")), "|")
		if got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
