package scripted

import (
	"fmt"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/llm"
	"orchard/internal/seal"
)

// index finds a task by its statement, white space aside.
type index struct {
	tasks      []*task
	byDigest   map[string]*task // of the normalised statement; of equal ones the first
	statements []string         // normalised, as tasks
}

// task is a task with its gold patch taken apart.
type task struct {
	record.Task
	pieces []piece
}

func newIndex(tasks []record.Task) (index, error) {
	ix := index{byDigest: map[string]*task{}}
	for _, r := range tasks {
		s := normal(r.Statement)
		switch {
		case s == "":
			return ix, fmt.Errorf("task %s: its statement is empty, so no request can be about it", r.TaskID)
		case r.GoldPatch.Blob != "":
			return ix, fmt.Errorf("task %s: its gold patch is in blob %s; put the whole text into the row first", r.TaskID, r.GoldPatch.Blob)
		}
		t := &task{Task: r, pieces: split(r.GoldPatch.Value)}
		ix.tasks, ix.statements = append(ix.tasks, t), append(ix.statements, s)
		if d := seal.Bytes([]byte(s)); ix.byDigest[d] == nil {
			ix.byDigest[d] = t
		}
	}
	return ix, nil
}

// normal is text with every run of white space as one space.
func normal(s string) string { return strings.Join(strings.Fields(s), " ") }

// The tags that our prompts put around the statement.
const openTag, closeTag = "<pr_description>", "</pr_description>"

// find is the task that the opening messages are about. Between the tags it is looked
// up; in prompts without them the longest statement that occurs wins.
func (ix index) find(messages []llm.Message) (*task, bool) {
	for _, m := range messages {
		if m.Role == "assistant" {
			break // the prompts are over
		}
		if _, rest, ok := strings.Cut(m.Content, openTag); ok {
			if end := strings.LastIndex(rest, closeTag); end >= 0 {
				if t := ix.byDigest[seal.Bytes([]byte(normal(rest[:end])))]; t != nil {
					return t, true
				}
			}
		}
		text, best := normal(m.Content), -1
		for i, s := range ix.statements {
			if (best < 0 || len(s) > len(ix.statements[best])) && strings.Contains(text, s) {
				best = i
			}
		}
		if best >= 0 {
			return ix.tasks[best], true
		}
	}
	return nil, false
}
