package charts_test

import (
	"strings"
	"testing"
)

// store are the least values with which stages are installed.
var store = []string{"--set", "s3.bucket=b-1,credentials.accessKeyId=id,credentials.secretAccessKey=secret"}

// A slip in the values fails the install and names the value.
func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	with := func(set string) string { return strings.Join(store[1:], "") + "," + set }
	for _, c := range []struct{ set, says string }{
		{"replica=3", "replica"},
		{"replicas=0", "replicas"},
		{"sandbox.defaultCpu=1", "defaultCpu"},
		{"sandbox.defaultMemory=1GB", "defaultMemory"},
		{"sandbox.namespace=Boxes", "namespace"},
		{"sandbox.namespace=" + namespace, "must not be the namespace of the release"},
		{"sandbox.podSecurity=none", "podSecurity"},
		{"image.digest=0123", "digest"},
		{"logLevel=loud", "logLevel"},
		{"keys.apiKey=secret", "apiKey"},
		{"network.closedNetworks={10.0.0.0}", "closedNetworks"},
		{"network.allowEgress={everything}", "allowEgress"},
		{"network.dns.pods=kube-dns", "pods"},
		{"egress.replicas=0", "replicas"},

		{"stageImage.digest=sha256:12", "stageImage"},
		{"stageImage.digest=sha256:12", "digest"},
		{"stageImage.repository=", "repository"},
		{"toolchainImage.name=x", "name"},
		{"s3.buckt=x", "buckt"},
		{"s3.bucket=My_Bucket", "bucket"},
		{"s3.endpoint=minio:9000", "endpoint"},
		{"s3.endpoint=https://minio/path", "endpoint"},
		{"s3.addressing=dns", "addressing"},
		{with("s3.prefix=/a/"), "prefix"},
		{"credentials.accessKey=x", "accessKey"},
		{"model.url=vllm:8000", "url"},
		{"scriptedModel.enabled=maybe", "enabled"},
		{"workflows.enabled=yes", "enabled"},
		{"workflows.checkSeconds=0", "checkSeconds"},
		{"workflows.trainer=mine", "trainer"},
		{"nightlyEval.enabled=true,nightlyEval.schedule=\"x", "schedule"},
		{"credentials.webhookUrl=chat.example", "webhookUrl"},
		{with("stages.networkPolicy.allowed[0].cidr=10.0.0.1"), "cidr"},
		{with("stages.networkPolicy.allowed[0].port=443"), "cidr"},
		{with("stages.networkPolicy.blocked={metadata}"), "blocked"},

		{"s3.endpoint=https://minio:9000", "s3.bucket is not: name the bucket"},
		{"credentials.accessKeyId=x", "s3.bucket is not: name the bucket"},
		{"s3.bucket=b-1", "set credentials.accessKeyId and credentials.secretAccessKey; or make the Secret orchard-credentials"},
		{"s3.bucket=b-1,credentials.accessKeyId=x", "set credentials.accessKeyId and credentials.secretAccessKey"},
		{with("credentials.create=false"), "the other values of credentials would be lost"},
		{with("keys.existingSecret=mine"), "set credentials.sandboxApiKey, or make the Secret orchard-credentials"},
		{"scriptedModel.enabled=true", "set s3.bucket"},
		{"workflows.enabled=true", "there is no object store for the datasets: set s3.bucket"},
		{with("workflows.enabled=true"), "install Argo Workflows first"},
		{with("nightlyEval.enabled=true"), "nightlyEval.tasks names no task set"},
		{with("nightlyEval.enabled=true,nightlyEval.tasks=examples"), "the pipelines are not installed"},
		{with("stages.networkPolicy.closed=true"), "stages.networkPolicy.allowed names no network"},
	} {
		t.Run(c.set, func(t *testing.T) {
			t.Parallel()
			// Without Argo.
			if _, errs, err := template(t.Context(), t, "--set", c.set); err == nil || !strings.Contains(errs, c.says) {
				t.Errorf("%v, and it says\n%s\nwant %q in it", err, errs, c.says)
			}
		})
	}
}

// helm's own opinion of the chart, with each variant's values.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, file := range variants(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if out, errs, err := runHelm(t.Context(), t, "lint", "--strict", "orchard", "-f", file); err != nil {
				t.Errorf("%v\n%s%s", err, out, errs)
			}
		})
	}
}
