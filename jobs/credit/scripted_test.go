package credit

import (
	"net/http/httptest"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/llm/scripted"
)

// The policy that needs no model looks back as well, so that pipelines can be tried
// without one.
func TestTheScriptedPolicyAnswers(t *testing.T) {
	t.Parallel()
	policy, err := scripted.New([]record.Task{{TaskID: "a", Statement: "Mend a!"}}, scripted.Options{SolveRate: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(policy)
	t.Cleanup(server.Close)
	var list []record.Rollout
	for n := 3; n < 12; n++ {
		r := played("a", record.Unresolved, n)
		r.RolloutID, r.Policy = string(rune('a'+n)), scripted.Model
		list = append(list, r)
	}
	c := given(t, server.URL, list...)
	c.LLM.Model = scripted.Model
	res, err := Run(t.Context(), c, deps())
	if err != nil || res.Outcomes[record.CreditAnnotated] != 9 || res.Usage.ModelCalls != 9 {
		t.Errorf("%+v, %v", res, err)
	}
	if r := rows(t, res)["a"]; len(r.Segments) == 0 || r.Segments[0].Begin != 0 {
		t.Errorf("%+v", r)
	}
}
