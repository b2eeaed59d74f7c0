// Prints Avro for Java's answers for tests/registry/reference/avro_schemas.json, as JSON: how Schema.toString writes each schema, and
// for each reader a row with the compatibility of each writer (1 or 0), as SchemaCompatibility decides, which Confluent's registry asks.
//
//   java -cp "$(python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
//       tests/registry/reference/AvroReference.java tests/registry/reference/avro_schemas.json > tests/registry/reference/avro_answers.json

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

public class AvroReference {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        List<Schema> schemas = new ArrayList<>();
        for (JsonNode text : mapper.readTree(Path.of(arguments[0]).toFile())) {
            schemas.add(new Schema.Parser().parse(text.toString()));
        }
        List<String> lines = new ArrayList<>();
        for (Schema reader : schemas) {
            StringBuilder row = new StringBuilder();
            for (Schema writer : schemas) {
                var result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType();
                row.append(result == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE ? '1' : '0');
            }
            lines.add("{\"text\": " + mapper.writeValueAsString(reader.toString()) + ", \"reads\": \"" + row + "\"}");
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }
}
