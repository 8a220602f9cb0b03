package pipeline

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// cronWorkflow starts a pipeline when a clock says so. Here there is no clock: to run it is
// to run the pipeline once, with the arguments that it gives.
type cronWorkflow struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       struct {
		WorkflowSpec struct {
			Arguments           Arguments `json:"arguments"`
			WorkflowTemplateRef struct {
				Name string `json:"name"`
			} `json:"workflowTemplateRef"`
		} `json:"workflowSpec"`

		ConcurrencyPolicy          Ignored `json:"concurrencyPolicy"`
		FailedJobsHistoryLimit     Ignored `json:"failedJobsHistoryLimit"`
		Schedules                  Ignored `json:"schedules"`
		StartingDeadlineSeconds    Ignored `json:"startingDeadlineSeconds"`
		StopStrategy               Ignored `json:"stopStrategy"`
		SuccessfulJobsHistoryLimit Ignored `json:"successfulJobsHistoryLimit"`
		Suspend                    Ignored `json:"suspend"`
		Timezone                   Ignored `json:"timezone"`
		When                       Ignored `json:"when"`
		WorkflowMetadata           Ignored `json:"workflowMetadata"`
	} `json:"spec"`
}

// cron reads a CronWorkflow as the pipeline that it starts, under its own name. That
// pipeline must be in the library already.
func (l Library) cron(doc []byte) (*Workflow, error) {
	var c cronWorkflow
	if err := yaml.UnmarshalStrict(doc, &c); err != nil {
		return nil, fmt.Errorf("not in the subset of Argo that runs here: %w", err)
	}
	spec := c.Spec.WorkflowSpec
	started := l[spec.WorkflowTemplateRef.Name]
	if started == nil || started.Spec.Entrypoint == "" {
		return nil, fmt.Errorf("CronWorkflow %s starts the pipeline %q, which is not there", c.Metadata.Name, spec.WorkflowTemplateRef.Name)
	}
	w := &Workflow{APIVersion: c.APIVersion, Kind: c.Kind, Metadata: c.Metadata, Spec: started.Spec}
	w.Spec.Arguments.Parameters = slices.Clone(started.Spec.Arguments.Parameters)
	for _, given := range spec.Arguments.Parameters {
		i := slices.IndexFunc(w.Spec.Arguments.Parameters, func(p Parameter) bool { return p.Name == given.Name })
		if i < 0 {
			return nil, fmt.Errorf("CronWorkflow %s: pipeline %s has no parameter %q", c.Metadata.Name, started.Metadata.Name, given.Name)
		}
		if given.Value != nil { // what a cluster's ConfigMap has is asked for here as in the pipeline
			w.Spec.Arguments.Parameters[i].Value = given.Value
		}
	}
	return w, nil
}
