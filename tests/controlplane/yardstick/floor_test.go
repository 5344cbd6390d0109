package yardstick

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extender "k8s.io/kube-scheduler/extender/v1"
)

func TestFloorVerbs(t *testing.T) {
	const ab, scoredAB = `{"NodeNames":["a","b"]}`, `[{"Host":"a","Score":5},{"Host":"b","Score":5}]`
	const namesOnly = "names mode only"

	// Requests whose names are a and b, however hard they are to find.
	for name, body := range map[string]string{
		"as upstream sends it":                   `{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}`,
		"first key":                              `{"NodeNames":["a","b"],"Nodes":null,"Pod":{"spec":{"containers":[]}}}`,
		"spaces":                                 `{ "Nodes" : null , "NodeNames" : [ "a" , "b" ] }`,
		"every white space":                      "{\r\n\t\"Nodes\": null,\r\n\t\"NodeNames\"\t:\r\n [\n\t\t\"a\"\t,\n\t\t\"b\"\n\t]\r\n}\r\n",
		"escaped copy in an annotation":          `{"Pod":{"metadata":{"annotations":{"last":"{\"NodeNames\":[\"x\"]}"}}},"NodeNames":["a","b"]}`,
		"escaped copy in a copy":                 `{"Pod":{"metadata":{"annotations":{"last":"{\"l\":\"{\\\"NodeNames\\\":[\\\"x\\\"]}\"}"}}},"NodeNames":["a","b"]}`,
		"string that ends like the key":          `{"Pod":{"metadata":{"annotations":{"say":"\"NodeNames"}}},"NodeNames":["a","b"]}`,
		"key that ends like the key":             `{"Pod":{"metadata":{"annotations":{"{\"NodeNames":"[\"x\"]"}}},"NodeNames":["a","b"]}`,
		"annotation with the key":                `{"Pod":{"metadata":{"annotations":{"NodeNames":"[\"x\"]"}}},"NodeNames":["a","b"]}`,
		"annotation with the key for its value":  `{"Pod":{"metadata":{"annotations":{"key":"NodeNames"}}},"NodeNames":["a","b"]}`,
		"list with the key for an item":          `{"Pod":{"args":["x","NodeNames","[y]"]},"NodeNames":["a","b"]}`,
		"brackets before the names":              `{"Pod":{"spec":{"containers":[{"args":["[","]"]}]}},"NodeNames":["a","b"]}`,
		"longer keys with the same begin or end": `{"Pod":{"NodeNamesX":["x"],"XNodeNames":["x"]},"NodeNames":["a","b"]}`,
	} {
		checkVerbs(t, floorVerbs, []verbCase{
			{name: name, verb: "filter", body: body, want: ab},
			{name: name, verb: "prioritize", body: body, want: scoredAB},
		})
	}

	checkVerbs(t, floorVerbs, []verbCase{
		{name: "no names", verb: "filter", body: `{"NodeNames":[ ]}`, want: `{"NodeNames":[]}`},
		{name: "no names", verb: "prioritize", body: `{"NodeNames":[ ]}`, want: `[]`},
		{name: "one name", verb: "filter", body: `{"NodeNames":["a.b-c.example"]}`, want: `{"NodeNames":["a.b-c.example"]}`},
		{name: "one name", verb: "prioritize", body: `{"NodeNames":["a.b-c.example"]}`, want: `[{"Host":"a.b-c.example","Score":5}]`},

		{name: "whole-node mode", verb: "filter", body: `{"Pod":{},"Nodes":{"items":[]},"NodeNames":null}`, err: namesOnly},
		{name: "whole-node mode", verb: "prioritize", body: `{"Pod":{},"Nodes":{"items":[]},"NodeNames":null}`, err: namesOnly},
		{name: "no key", verb: "filter", body: `{}`, err: namesOnly},
		{name: "lower case key", verb: "filter", body: `{"nodenames":["a"]}`, err: namesOnly},
		{name: "empty", verb: "filter", body: ``, err: namesOnly},
		{name: "key and no more", verb: "filter", body: `{"NodeNames"`, err: namesOnly},
		{name: "no value", verb: "filter", body: `{"NodeNames": `, err: namesOnly},
		{name: "nothing before the key", verb: "filter", body: `"NodeNames":["a"]}`, err: namesOnly},
		{name: "array not closed", verb: "filter", body: `{"NodeNames":["a"`, err: "ends within NodeNames"},
		{name: "object not closed", verb: "filter", body: `{"NodeNames":["a"]`, err: "ends within NodeNames"},
		{name: "escape", verb: "filter", body: `{"NodeNames":["\u0061"]}`, err: "knows no escapes"},

		{name: "escape", verb: "prioritize", body: `{"NodeNames":["a","\u0062"]}`, err: "knows no escapes"},
		{name: "array not closed", verb: "prioritize", body: `{"NodeNames":["a"`, err: "ends within NodeNames"},
		{name: "open after a comma", verb: "prioritize", body: `{"NodeNames":["a", `, err: "ends within NodeNames"},
		{name: "name not closed", verb: "prioritize", body: `{"NodeNames":["a`, err: "ends within a name"},
		{name: "number", verb: "prioritize", body: `{"NodeNames":[1]}`, err: "where a name should start"},
		{name: "trailing comma", verb: "prioritize", body: `{"NodeNames":["a",]}`, err: "where a name should start"},
		{name: "no comma", verb: "prioritize", body: `{"NodeNames":["a" "b"]}`, err: "between two names"},

		{
			name: "as upstream sends it", verb: "preemption",
			body: `{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}`,
			want: `{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}`,
		},
		{
			name: "spaces and an escaped copy", verb: "preemption",
			body: "{\"Pod\":{\"a\":\"\\\"NodeNameToMetaVictims\\\":{}\"},\n \"NodeNameToMetaVictims\" : {} }\n",
			want: `{"NodeNameToMetaVictims":{}}`,
		},
		{name: "whole-node mode", verb: "preemption", body: `{"NodeNameToVictims":{"n1":{}},"NodeNameToMetaVictims":null}`, err: namesOnly},
	})
}

// The two yardsticks must do the same work, or comparing their times says nothing.
func TestFloorAgreesWithNull(t *testing.T) {
	request := &extender.ExtenderArgs{
		Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:        "p",
			Labels:      map[string]string{"NodeNames": "x"},
			Annotations: map[string]string{"NodeNames": `["x"]`, "last": `{"NodeNames":["x"],"NodeNames`},
		}},
		NodeNames: &[]string{"a", "b.example", "c-1"},
	}
	compact, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, compact, "", "\t"); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{string(compact), indented.String()} {
		filtered := both[extender.ExtenderFilterResult](t, "filter", body)
		if got, want := *filtered[0].NodeNames, *filtered[1].NodeNames; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("filter: floor %v, null %v", got, want)
		}
		scored := both[extender.HostPriorityList](t, "prioritize", body)
		if len(scored[0]) != len(scored[1]) {
			t.Fatalf("prioritize: floor %v, null %v", scored[0], scored[1])
		}
		for i := range scored[0] {
			if scored[0][i] != scored[1][i] {
				t.Errorf("prioritize: floor %v, null %v", scored[0][i], scored[1][i])
			}
		}
	}
}

// both returns what the scheduler would decode from floor's and from null's reply.
func both[Result any](t *testing.T, name, body string) (results [2]Result) {
	t.Helper()
	for i, v := range []verbs{floorVerbs, nullVerbs} {
		reply, err := answer(v[name], body)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(reply), &results[i]); err != nil {
			t.Fatalf("%v in %s", err, reply)
		}
	}
	return results
}

// The memory of one exchange serves the next: a shorter request must not see the longer one's rest.
func TestFloorReusesMemory(t *testing.T) {
	var x exchange
	for _, c := range []struct{ body, want string }{
		{`{"NodeNames":["long-name-1","long-name-2"]}`, `[{"Host":"long-name-1","Score":5},{"Host":"long-name-2","Score":5}]`},
		{`{"NodeNames":["a"]}`, `[{"Host":"a","Score":5}]`},
	} {
		x.body.Reset()
		x.body.WriteString(c.body)
		reply, err := floorPrioritize(&x)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, string(reply), c.want)
	}
	if cap(x.scratch) == 0 {
		t.Error("the memory of the reply was not kept")
	}
}
