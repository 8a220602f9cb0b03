// Package llmflags binds the options of the model client to a command line.
//
// There is no flag for a key: it comes from OPENAI_API_KEY or from the file that
// --llm-key-file names, so that it is in no process list and no shell history.
package llmflags

import (
	"os"

	"github.com/urfave/cli/v2"

	"orchard/internal/llm"
)

const category = "MODEL"

// Flags are the flags that fill o when they are parsed; their help shows the values
// that o has now, or the client's defaults. It takes the key from OPENAI_API_KEY at once.
func Flags(o *llm.Options) []cli.Flag {
	if o.Key == "" {
		o.Key = llm.Secret(os.Getenv("OPENAI_API_KEY"))
	}
	if o.Timeout == 0 {
		o.Timeout = llm.DefaultTimeout
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = llm.DefaultMaxRetries
	}
	text := func(name, env, usage string, to *string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: []string{env}, Usage: usage, Destination: to, Value: *to, Category: category}
	}
	money := func(name, env, usage string, to *float64) cli.Flag {
		return &cli.Float64Flag{Name: name, EnvVars: []string{env}, Usage: usage, Destination: to, Value: *to, Category: category}
	}
	count := func(name, env, usage string, to *int) cli.Flag {
		return &cli.IntFlag{Name: name, EnvVars: []string{env}, Usage: usage, Destination: to, Value: *to, Category: category}
	}
	return []cli.Flag{
		text("llm-url", "OPENAI_BASE_URL", "base `URL` of an OpenAI-compatible server, such as http://localhost:8000/v1", &o.URL),
		text("llm-model", "ORCHARD_LLM_MODEL", "`NAME` of the model as the server lists it", &o.Model),
		text("llm-key-file", "OPENAI_API_KEY_FILE", "`FILE` with the key; OPENAI_API_KEY is used without it", &o.KeyFile),
		text("llm-ca-file", "ORCHARD_LLM_CA_FILE", "PEM `FILE` of certificates to trust besides the system's", &o.CAFile),
		text("llm-proxy", "ORCHARD_LLM_PROXY", "`URL` of a proxy; HTTPS_PROXY, HTTP_PROXY and NO_PROXY are used without it", &o.Proxy),
		&cli.BoolFlag{Name: "llm-stream", EnvVars: []string{"ORCHARD_LLM_STREAM"}, Usage: "stream answers, for proxies that close idle connections", Destination: &o.Stream, Value: o.Stream, Category: category},
		&cli.DurationFlag{Name: "llm-timeout", EnvVars: []string{"ORCHARD_LLM_TIMEOUT"}, Usage: "longest time for one try of a call", Destination: &o.Timeout, Value: o.Timeout, Category: category},
		count("llm-max-retries", "ORCHARD_LLM_MAX_RETRIES", "tries of a call after the first", &o.MaxRetries),
		count("llm-concurrency", "ORCHARD_LLM_CONCURRENCY", "calls at the same time; 0 is no limit", &o.Concurrency),
		&cli.Int64Flag{Name: "llm-budget-tokens", EnvVars: []string{"ORCHARD_LLM_BUDGET_TOKENS"}, Usage: "prompt and completion tokens to use at most; 0 is no limit", Destination: &o.BudgetTokens, Value: o.BudgetTokens, Category: category},
		money("llm-budget-usd", "ORCHARD_LLM_BUDGET_USD", "US dollars to spend at most, by the prices given; 0 is no limit", &o.BudgetUSD),
		money("llm-price-in", "ORCHARD_LLM_PRICE_IN", "US dollars per million prompt tokens", &o.PriceIn),
		money("llm-price-out", "ORCHARD_LLM_PRICE_OUT", "US dollars per million completion tokens", &o.PriceOut),
	}
}
