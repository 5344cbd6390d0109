{{- /*
The enabled agents as a JSON list in the order of their ports: each entry over agentDefaults, with
its name, port, opsPort and number.
*/ -}}
{{- define "kse.agents" -}}
{{- $taken := dict -}}
{{- $agents := dict -}}
{{- range $name, $entry := .Values.agents -}}
{{- $agent := mergeOverwrite (deepCopy $.Values.agentDefaults) (deepCopy ($entry | default dict)) (dict "name" $name) -}}
{{- if $agent.enabled -}}
{{- $_ := set $agents $name $agent -}}
{{- if $agent.port -}}
{{- with get $taken (toString $agent.port) -}}
{{- fail (printf "agents.%s.port and agents.%s.port are both %v; give each agent a port of its own" . $name $agent.port) -}}
{{- end -}}
{{- $_ := set $taken (toString $agent.port) $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $next := int .Values.basePort -}}
{{- $byPort := dict -}}
{{- range $name, $agent := $agents -}}
{{- $port := int $agent.port -}}
{{- if not $port -}}
{{- range until (len $agents) -}}
{{- if hasKey $taken (toString $next) -}}{{- $next = add1 $next | int -}}{{- end -}}
{{- end -}}
{{- $port = $next -}}
{{- $_ := set $taken (toString $port) $name -}}
{{- end -}}
{{- $_ := set $agent "port" $port -}}
{{- $_ := set $agent "opsPort" (add $port 1000) -}}
{{- $_ := set $byPort (printf "%05d" $port) $agent -}}
{{- end -}}
{{- $list := list -}}
{{- range $index, $port := keys $byPort | sortAlpha -}}
{{- $agent := get $byPort $port -}}
{{- $prefix := $.Values.agentContainerPrefix -}}
{{- $_ := set $agent "container" (ternary (printf "%s%d" $prefix (add1 $index)) $agent.name (ne $prefix "")) -}}
{{- $list = append $list $agent -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}

{{- define "kse.isBinding" -}}
{{- range include "kse.agents" . | fromJsonArray }}{{ if .bind }}true{{ end }}{{ end -}}
{{- end -}}

{{- define "kse.isNudging" -}}
{{- range include "kse.agents" . | fromJsonArray }}{{ if .nudge }}true{{ end }}{{ end -}}
{{- end -}}

{{- /* Whether any agent reaches the apiserver. */ -}}
{{- define "kse.needsApi" -}}
{{- if or .Values.nodeCache (include "kse.isBinding" .) }}true{{ end -}}
{{- end -}}

{{- define "kse.agentImage" -}}
{{- $image := .root.Values.image -}}
{{- $name := printf "kube-sched-ext-%s:%s" .agent.name ($image.tag | default .root.Chart.AppVersion) -}}
{{- .agent.image | default (ternary (printf "%s/%s" $image.registry $name) $name (ne $image.registry "")) -}}
{{- end -}}

{{- /* The environment of an agent: what the chart decides, then its settings. */ -}}
{{- define "kse.agentEnvironment" -}}
{{- $values := .root.Values -}}
{{- $agent := .agent -}}
{{- $set := dict "HTTP_PORT" $agent.port "OPS_PORT" $agent.opsPort "NODE_CACHE" $values.nodeCache -}}
{{- if ne $values.pathPrefix "/scheduler" }}{{ $_ := set $set "PATH_PREFIX" $values.pathPrefix }}{{ end -}}
{{- if include "kse.isDaemonSet" .root }}{{ $_ := set $set "HTTP_HOST" "127.0.0.1" }}{{ end -}}
{{- if $agent.bind }}{{ $_ := set $set "BIND" true }}{{ end -}}
{{- if $agent.nudge }}{{ $_ := set $set "NUDGE" true }}{{ end -}}
{{- if $agent.sourceSetting }}{{ $_ := set $set $agent.sourceSetting $agent.source }}{{ end -}}
{{- if eq $agent.source "prometheus" }}{{ $_ := set $set "PROMETHEUS_URL" $values.prometheus.url }}{{ end -}}
{{- if $values.tls.enabled -}}
{{- $_ := set $set "TLS_CERT_FILE" "/etc/kube-sched-ext/tls/tls.crt" -}}
{{- $_ := set $set "TLS_KEY_FILE" "/etc/kube-sched-ext/tls/tls.key" -}}
{{- if $values.tls.clients.required -}}
{{- $_ := set $set "TLS_CLIENT_CA_FILE" "/etc/kube-sched-ext/client-ca/ca.crt" -}}
{{- with $values.tls.clients.names }}{{ $_ := set $set "TLS_CLIENT_NAMES" (join "," .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $own := list "HTTP_HOST" "PATH_PREFIX" "BIND" "NUDGE" "TLS_CERT_FILE" "TLS_KEY_FILE" "TLS_CLIENT_CA_FILE" "TLS_CLIENT_NAMES" -}}
{{- range $name, $value := $agent.settings -}}
{{- if or (hasKey $set $name) (has $name $own) -}}
{{- fail (printf "agents.%s.settings.%s: the chart sets %s itself, from other values (see its README)" $agent.name $name $name) -}}
{{- end -}}
{{- $_ := set $set $name $value -}}
{{- end -}}
{{- range $name, $value := $set }}
- name: {{ $name }}
  value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end -}}
{{- end -}}
