#!/bin/sh
# A controller: for each Database it applies a Secret that belongs to it, and reports in the status.
set -eu
columns='{.metadata.namespace} {.metadata.name} {.metadata.uid} {.metadata.generation} {.spec.engine} {.status.observedGeneration}{"\n"}'
kubectl get databases.platform.example.com --all-namespaces --watch --output=jsonpath="$columns" |
  while read -r namespace name uid generation engine observed; do
    # The watch also reports the status that the controller itself has written.
    [ "$generation" != "${observed:-}" ] || continue
    # The Database owns the Secret, so the garbage collector deletes it with the Database.
    kubectl apply --server-side --force-conflicts --field-manager=database-controller --filename=- <<END || continue
apiVersion: v1
kind: Secret
metadata:
  name: $name-connection
  namespace: $namespace
  ownerReferences: [{apiVersion: platform.example.com/v1, kind: Database, name: $name, uid: $uid, controller: true}]
stringData: {url: "$engine://$name.$namespace.databases.example.com"}
END
    kubectl patch database "$name" --namespace="$namespace" --subresource=status --type=merge --field-manager=database-controller \
      --patch="{\"status\": {\"phase\": \"Ready\", \"secretName\": \"$name-connection\", \"observedGeneration\": $generation}}" || continue
  done
