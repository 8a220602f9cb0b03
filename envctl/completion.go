package envctl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
)

// shells are the completion scripts. Verbs and flags are written into them, so that
// completing asks nobody; ids are asked for when one is to be completed.
var shells = map[string]func(*cli.App) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}

func (p *Program) completion() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a shell's completion script", ArgsUsage: "bash|zsh|fish",
		Description: "bash: source <(envctl completion bash)\nzsh:  source <(envctl completion zsh)\nfish: envctl completion fish | source",
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, 1)
			if err != nil {
				return err
			}
			script, ok := shells[args[0]]
			if !ok {
				return exit.Configf("completion: %q is none of bash, zsh and fish", args[0])
			}
			_, err = fmt.Fprint(p.Out, script(c.App))
			return err
		},
	}
}

// words are the flags of a list as one types them.
func words(flags []cli.Flag) []string {
	var out []string
	for _, f := range flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				out = append(out, "--"+n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// noIDs are the verbs whose arguments are no sandbox's id.
var noIDs = []string{"create", "run", "ls", "jobs", "kill", "logs", "image", "pool", "serve", "completion", "version", "bench", "top", "cost"}

func bashScript(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# bash completion of envctl
_envctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} verb= sub= w i
  for ((i = 1; i < COMP_CWORD; i++)); do
    w=${COMP_WORDS[i]}
    [[ $w == -- ]] && return
    case $w in
    --url | --key-file | --output | -o | --kubeconfig | --context | --namespace) ((i++)) ;;
    -*) ;;
    *) if [[ -z $verb ]]; then verb=$w; elif [[ -z $sub ]]; then sub=$w; fi ;;
    esac
  done
  local shared=%q own= verbs= ids=
  case $verb in
`, strings.Join(words(app.Flags), " "))
	var verbs []string
	for _, c := range app.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		verbs = append(verbs, c.Name)
		var subs []string
		own := words(c.Flags)
		for _, s := range c.Subcommands {
			subs = append(subs, s.Name)
			own = append(own, words(s.Flags)...)
		}
		ids := "1"
		if slices.Contains(noIDs, c.Name) {
			ids = ""
		}
		fmt.Fprintf(&b, "  %s) own=%q verbs=%q ids=%s ;;\n", strings.Join(c.Names(), " | "), strings.Join(own, " "), strings.Join(subs, " "), ids)
	}
	fmt.Fprintf(&b, `  '') verbs=%q ;;
  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$own $shared" -- "$cur"))
  elif [[ -n $verbs && -z $sub ]]; then
    COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
  elif [[ -n $ids ]]; then
    COMPREPLY=($(compgen -W "$(envctl ls 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur"))
  fi
}
complete -o default -F _envctl envctl
`, strings.Join(verbs, " "))
	return b.String()
}

// zshScript is bash's through zsh's own adapter.
func zshScript(app *cli.App) string {
	return "autoload -U +X bashcompinit && bashcompinit\n" + bashScript(app)
}

func fishScript(app *cli.App) string {
	var b strings.Builder
	b.WriteString("# fish completion of envctl\ncomplete -c envctl -f\n")
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", " ", "`", "").Replace(s) + "'"
	}
	for _, f := range app.Flags {
		fishFlag(&b, quote, "", f)
	}
	for _, c := range app.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		fmt.Fprintf(&b, "complete -c envctl -n __fish_use_subcommand -a %s -d %s\n", c.Name, quote(c.Usage))
		seen := "'__fish_seen_subcommand_from " + c.Name + "'"
		for _, f := range c.Flags {
			fishFlag(&b, quote, seen, f)
		}
		for _, s := range c.Subcommands {
			fmt.Fprintf(&b, "complete -c envctl -n %s -a %s -d %s\n", seen, s.Name, quote(s.Usage))
		}
		if !slices.Contains(noIDs, c.Name) && len(c.Subcommands) == 0 {
			fmt.Fprintf(&b, "complete -c envctl -n %s -a \"(envctl ls 2>/dev/null | awk 'NR > 1 { print \\$1 }')\"\n", seen)
		}
	}
	return b.String()
}

func fishFlag(b *strings.Builder, quote func(string) string, seen string, f cli.Flag) {
	fmt.Fprint(b, "complete -c envctl")
	if seen != "" {
		fmt.Fprintf(b, " -n %s", seen)
	}
	for _, n := range f.Names() {
		if len(n) == 1 {
			fmt.Fprintf(b, " -s %s", n)
		} else {
			fmt.Fprintf(b, " -l %s", n)
		}
	}
	if d, ok := f.(cli.DocGenerationFlag); ok {
		if d.TakesValue() {
			fmt.Fprint(b, " -r")
		}
		fmt.Fprintf(b, " -d %s", quote(d.GetUsage()))
	}
	fmt.Fprintln(b)
}
