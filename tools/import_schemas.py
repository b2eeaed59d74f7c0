"""Writes protocol/schemas/*.schema from the message definitions inside Apache Kafka's jars.

Only facts are imported: fields, types, versions, tags, nullability and defaults. Run ``python -m tools.import_schemas JAR... --out
ottla/protocol/schemas`` when ottla follows a new version of Kafka.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

APIS = """
    Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup SyncGroup Heartbeat
    LeaveGroup DescribeGroups ListGroups DeleteGroups OffsetDelete ApiVersions CreateTopics DeleteTopics
    CreatePartitions DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn
    EndTxn WriteTxnMarkers TxnOffsetCommit DescribeConfigs AlterConfigs IncrementalAlterConfigs
    ListConfigResources DescribeCluster DescribeTopicPartitions DescribeLogDirs DescribeProducers
    DescribeTransactions ListTransactions UpdateFeatures
    ConsumerGroupHeartbeat ConsumerGroupDescribe StreamsGroupHeartbeat StreamsGroupDescribe
    StreamsGroupTopologyDescriptionUpdate ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge
    InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
    ReadShareGroupStateSummary DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets
    DescribeAcls CreateAcls DeleteAcls DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials
    AlterUserScramCredentials DescribeQuorum ElectLeaders AlterPartitionReassignments
    ListPartitionReassignments AlterReplicaLogDirs CreateDelegationToken RenewDelegationToken
    ExpireDelegationToken DescribeDelegationToken SaslHandshake SaslAuthenticate AddRaftVoter
    RemoveRaftVoter UnregisterBroker UnregisterController GetTelemetrySubscriptions PushTelemetry
    BrokerRegistration BrokerHeartbeat AllocateProducerIds AlterPartition Envelope
    ControllerRegistration AssignReplicasToDirs FetchSnapshot
""".split()

RECORDS = """
    TransactionLogKey TransactionLogValue OffsetCommitKey OffsetCommitValue GroupMetadataKey
    GroupMetadataValue TopicRecord PartitionRecord RemoveTopicRecord ConfigRecord FeatureLevelRecord
    ProducerIdsRecord ConsumerProtocolSubscription ConsumerProtocolAssignment ClientQuotaRecord
    UserScramCredentialRecord RemoveUserScramCredentialRecord
    AbortTransactionRecord AccessControlEntryRecord BeginTransactionRecord BrokerRegistrationChangeRecord ClearElrRecord
    DelegationTokenRecord EndTransactionRecord NoOpRecord PartitionChangeRecord RegisterBrokerRecord RegisterControllerRecord
    RemoveAccessControlEntryRecord RemoveDelegationTokenRecord UnregisterBrokerRecord FenceBrokerRecord UnfenceBrokerRecord
    UnregisterControllerRecord ZkMigrationStateRecord
    ConsumerGroupMetadataKey ConsumerGroupMetadataValue ConsumerGroupMemberMetadataKey
    ConsumerGroupMemberMetadataValue ConsumerGroupTargetAssignmentMetadataKey
    ConsumerGroupTargetAssignmentMetadataValue ConsumerGroupTargetAssignmentMemberKey
    ConsumerGroupTargetAssignmentMemberValue ConsumerGroupCurrentMemberAssignmentKey
    ConsumerGroupCurrentMemberAssignmentValue ConsumerGroupRegularExpressionKey
    ConsumerGroupRegularExpressionValue ShareGroupMetadataKey ShareGroupMetadataValue
    ShareGroupMemberMetadataKey ShareGroupMemberMetadataValue ShareGroupTargetAssignmentMetadataKey
    ShareGroupTargetAssignmentMetadataValue ShareGroupTargetAssignmentMemberKey
    ShareGroupTargetAssignmentMemberValue ShareGroupCurrentMemberAssignmentKey
    ShareGroupCurrentMemberAssignmentValue ShareGroupStatePartitionMetadataKey
    ShareGroupStatePartitionMetadataValue ShareSnapshotKey ShareSnapshotValue ShareUpdateKey
    ShareUpdateValue StreamsGroupMetadataKey StreamsGroupMetadataValue StreamsGroupMemberMetadataKey
    StreamsGroupMemberMetadataValue StreamsGroupTargetAssignmentMetadataKey
    StreamsGroupTargetAssignmentMetadataValue StreamsGroupTargetAssignmentMemberKey
    StreamsGroupTargetAssignmentMemberValue StreamsGroupCurrentMemberAssignmentKey
    StreamsGroupCurrentMemberAssignmentValue StreamsGroupTopologyKey StreamsGroupTopologyValue
""".split()

Json = dict[str, Any]


def snake(name: str) -> str:
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def load(jars: list[Path]) -> dict[str, Json]:
    messages: dict[str, Json] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as z:
            for name in z.namelist():
                if name.endswith(".json"):
                    text = z.read(name).decode()
                    text = re.sub(r"(?m)^\s*//.*$", "", text)
                    text = re.sub(r'(?m)\s//[^"]*$', "", text)
                    message = json.loads(text)
                    if "validVersions" in message:
                        messages[message["name"]] = message
    return messages


def bounds(spec: str) -> tuple[int, int]:
    if spec == "none":
        return (1, 0)
    low, plus, _ = spec.partition("+")
    if plus:
        return int(low), 32767
    low, _, high = spec.partition("-")
    return int(low), int(high or low)


def show(low: int, high: int) -> str:
    return f"{low}+" if high == 32767 else str(low) if low == high else f"{low}-{high}"


def field_lines(field: Json, valid: tuple[int, int], depth: int) -> list[str]:
    low, high = bounds(field.get("versions") or field["taggedVersions"])
    low = max(low, valid[0])
    if low > min(high, valid[1]):
        return []
    high = 32767 if high >= valid[1] else high
    words = [snake(field["name"])]
    kind = field["type"]
    null = ""
    if field.get("nullableVersions", "none") != "none":
        nlow, _ = bounds(field["nullableVersions"])
        null = "?" if nlow <= low else f"?{nlow}+"
    words.append(kind + null)
    if (low, high) != (valid[0], 32767):
        words.append(show(low, high))
    if "tag" in field:
        words.append(f"tag={field['tag']}")
    default = field.get("default")
    if default not in (None, ""):
        text = str(default)
        text = {"True": "true", "False": "false", "None": "null"}.get(text, text)
        words.append(f"={int(text, 0) if re.fullmatch(r'-?(0x)?[0-9a-fA-F]+', text) else text}")
    lines = ["  " * depth + " ".join(words)]
    for child in field.get("fields", []):
        lines += field_lines(child, (low, min(high, valid[1])), depth + 1)
    return lines


def section(title: str, message: Json) -> list[str]:
    valid = bounds(message["validVersions"])
    flexible = bounds(message["flexibleVersions"])
    flex = "none" if flexible[0] > flexible[1] else f"{flexible[0]}+"
    unstable = " unstable" if message.get("latestVersionUnstable") else ""
    lines = [f"{title} {show(*valid)} flexible {flex}{unstable}"]
    for struct in message.get("commonStructs", []):
        lines.append(f"  struct {struct['name']}")
        for child in struct["fields"]:
            lines += field_lines(child, valid, 2)
    for field in message["fields"]:
        lines += field_lines(field, valid, 1)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jars", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    messages = load(options.jars)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in APIS:
        request, response = messages[f"{name}Request"], messages[f"{name}Response"]
        lines = [f"api {name} {request['apiKey']}", *section("request", request), *section("response", response)]
        (options.out / f"{snake(name)}.schema").write_text("\n".join(lines) + "\n")
    for name in RECORDS:
        message = messages[name]
        lines = [f"record {name} {message.get('apiKey', -1)}", *section("data", message)]
        (options.out / f"{snake(name)}.schema").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
