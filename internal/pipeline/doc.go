// Package pipeline runs, on this machine, the same Argo Workflows YAML that a cluster
// runs: WorkflowTemplates with containers, DAGs, parameters, templateRef, depends,
// when, withParam, withItems, recursion, retryStrategy with an expression, deadlines
// and onExit. A CronWorkflow is the pipeline that it starts, once, with its arguments.
//
// A container step is a process: this machine's orchard with the step's own
// arguments. Everything that only means something to Kubernetes (images, volumes,
// security contexts, pod garbage collection) is accepted and has no effect; a field
// outside the subset is an error that names it, never silently dropped. Results
// travel as Argo's do, through small output files that the step writes.
//
// The runner keeps no progress of its own beyond logs and records for people: a rerun
// runs every step again, and a step that finds its dataset committed ends at once. So
// a run that was killed anywhere is resumed by running it again.
package pipeline
