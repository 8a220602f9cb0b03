package harness

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"orchard/internal/llm"
)

// action is one command that an answer asks for. callID is "" in text protocols and
// for servers that give their calls no ids.
type action struct {
	command, callID string
}

// rejection is why an answer cannot be followed: in words, and for text protocols the
// number of blocks it had.
type rejection struct {
	reason string
	blocks int
}

// parse is the actions of an answer, in order, or why there are none. One bad call
// rejects the whole answer.
func (p protocol) parse(m llm.Message) ([]action, *rejection) {
	if p.fence != "" {
		return p.parseText(m.Content)
	}
	return parseCalls(m.ToolCalls)
}

func parseCalls(calls []llm.ToolCall) ([]action, *rejection) {
	if len(calls) == 0 {
		return nil, &rejection{reason: "The answer has no tool call; every answer must have at least one."}
	}
	var out []action
	for _, c := range calls {
		command, problems := parseCall(c)
		if len(problems) > 0 {
			return nil, &rejection{reason: strings.Join(problems, " ")}
		}
		out = append(out, action{command: command, callID: c.ID})
	}
	return out, nil
}

func parseCall(c llm.ToolCall) (command string, problems []string) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		problems = append(problems, fmt.Sprintf("The arguments of the tool call are no JSON object: %v.", err))
	}
	if c.Name != bashTool.Name {
		problems = append(problems, fmt.Sprintf("There is no tool %q.", c.Name))
	}
	raw, ok := args["command"]
	if !ok {
		problems = append(problems, "The argument \"command\" is missing.")
	} else if s := (*string)(nil); json.Unmarshal(raw, &s) != nil || s == nil {
		problems = append(problems, "The argument \"command\" must be a string.")
	} else {
		command = *s
	}
	return command, problems
}

// fences matches a block by its opening word. White space is what Python's \s is: Go's
// has ASCII only, and of that not even all.
var fences = map[string]*regexp.Regexp{}

func init() {
	for _, p := range protocols {
		if p.fence != "" {
			fences[p.fence] = regexp.MustCompile("(?s)```" + p.fence + `[\s\v\x1c-\x1f\x85\p{Z}]*\n(.*?)\n` + "```")
		}
	}
}

func (p protocol) parseText(content string) ([]action, *rejection) {
	found := fences[p.fence].FindAllStringSubmatch(content, -1)
	if len(found) != 1 {
		return nil, &rejection{reason: fmt.Sprintf("The answer has %d blocks with a command instead of one.", len(found)), blocks: len(found)}
	}
	return []action{{command: strip(found[0][1])}}, nil
}
