package yardstick

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// answer runs a verb on a body as a server would.
func answer(v verb, body string) (string, error) {
	var x exchange
	x.body.WriteString(body)
	reply, err := v(&x)
	return string(reply), err
}

// sameJSON compares by meaning: white space and the order of keys are free.
func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("reply is not JSON: %v\n%s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("the test's own expectation is not JSON: %v\n%s", err, want)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

type verbCase struct {
	name, verb, body, want string
	err                    string // a part of the error, instead of want
}

func checkVerbs(t *testing.T, v verbs, cases []verbCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.verb+"/"+c.name, func(t *testing.T) {
			got, err := answer(v[c.verb], c.body)
			switch {
			case c.err == "" && err != nil:
				t.Fatal(err)
			case c.err == "":
				sameJSON(t, got, c.want)
			case err == nil:
				t.Fatalf("no error but %s", got)
			case !strings.Contains(err.Error(), c.err):
				t.Errorf("error %q does not say %q", err, c.err)
			}
		})
	}
}

func TestNullVerbs(t *testing.T) {
	const noFailures = `"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""`
	checkVerbs(t, nullVerbs, []verbCase{
		{
			name: "names", verb: "filter",
			body: `{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}`,
			want: `{"Nodes":null,"NodeNames":["a","b"],` + noFailures + `}`,
		},
		{
			name: "no names", verb: "filter",
			body: `{"Pod":{},"Nodes":null,"NodeNames":[]}`,
			want: `{"Nodes":null,"NodeNames":[],` + noFailures + `}`,
		},
		{
			name: "lower case keys", verb: "filter",
			body: `{"pod":{},"nodenames":["a"]}`,
			want: `{"Nodes":null,"NodeNames":["a"],` + noFailures + `}`,
		},
		{
			name: "whole nodes come back unchanged", verb: "filter",
			body: `{"Pod":{},"Nodes":{"metadata":{},"items":[` + wholeNode + `]},"NodeNames":null}`,
			want: `{"Nodes":{"metadata":{},"items":[` + wholeNode + `]},"NodeNames":null,` + noFailures + `}`,
		},
		{name: "neither", verb: "filter", body: `{"Pod":{},"Nodes":null,"NodeNames":null}`, err: "neither NodeNames nor Nodes"},
		{name: "not JSON", verb: "filter", body: `{"Pod":`, err: "decoding the request"},
		{name: "empty", verb: "filter", body: ``, err: "decoding the request"},

		{
			name: "names", verb: "prioritize",
			body: `{"Pod":{},"Nodes":null,"NodeNames":["a","b"]}`,
			want: `[{"Host":"a","Score":5},{"Host":"b","Score":5}]`,
		},
		{name: "no names", verb: "prioritize", body: `{"NodeNames":[]}`, want: `[]`},
		{
			name: "whole nodes", verb: "prioritize",
			body: `{"Pod":{},"Nodes":{"items":[` + wholeNode + `]},"NodeNames":null}`,
			want: `[{"Host":"n1","Score":5}]`,
		},
		{name: "neither", verb: "prioritize", body: `{}`, err: "neither NodeNames nor Nodes"},

		{
			name: "names", verb: "preemption",
			body: `{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}`,
			want: `{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}`,
		},
		{
			name: "whole pods become meta pods", verb: "preemption",
			body: `{"Pod":{},"NodeNameToVictims":{"n1":{"Pods":[{"metadata":{"name":"v","uid":"u"}}],"NumPDBViolations":2}},"NodeNameToMetaVictims":null}`,
			want: `{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}`,
		},
		{name: "neither", verb: "preemption", body: `{"Pod":{}}`, err: "neither NodeNameToMetaVictims nor NodeNameToVictims"},
		{name: "no victims", verb: "preemption", body: `{"NodeNameToVictims":{"n1":null}}`, err: `node "n1" has null`},
		{name: "null for a victim", verb: "preemption", body: `{"NodeNameToVictims":{"n1":{"Pods":[null]}}}`, err: `node "n1" has null`},
	})
}

const wholeNode = `{"metadata":{"name":"n1","labels":{"zone":"a"}},"spec":{},` +
	`"status":{"allocatable":{"cpu":"8"},"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},` +
	`"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"",` +
	`"containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""},` +
	`"images":[{"names":["redis:8"],"sizeBytes":1}]}}`
